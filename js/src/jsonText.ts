/** JSON text, byte for byte the same as the Python package writes it, with the path of what cannot be written. */

import { MAX_DEPTH } from "./contract.js";
import { InvalidPayloadError } from "./errors.js";

type Path = readonly (string | number)[];

/** With the flag u, halves of a pair do not match: what is found stands alone. */
export const LONE_SURROGATE = /[\ud800-\udfff]/u;

/** A path as people write it: `items[2].name`; the value itself is `payload`. */
export const pathText = (path: Path): string =>
  path.reduce<string>(
    (text, step) => (typeof step === "number" ? `${text}[${step}]` : text ? `${text}.${step}` : step),
    "",
  ) || "payload";

/**
 * The value as compact JSON text. What has a `toJSON` is written as that says, like a Date; undefined properties are
 * left out.
 *
 * Throws `InvalidPayloadError`: NaN or infinity, a lone surrogate, a whole number beyond 2^53-1, a cycle, more than 200
 * levels, or what JSON has no form for (undefined in an array, a function, BigInt, Map, Promise …).
 */
export function encodeJson(given: unknown, path: Path = []): string {
  // biome-ignore lint/suspicious/noExplicitAny: everything about it is looked up
  let value = given as any;
  if (typeof value?.toJSON === "function" && typeof value === "object") value = value.toJSON();
  const kind = value === null ? "null" : typeof value;
  const refuse = (what: string, shown = path): never => {
    throw new InvalidPayloadError(`${pathText(shown)} ${what}`, { path });
  };

  if (kind === "string") {
    const at = value.search(LONE_SURROGATE);
    return at < 0 ? JSON.stringify(value) : refuse(`has a lone surrogate at character ${at}; remove it`);
  }
  if (kind === "number" && Number.isInteger(value) && !Number.isSafeInteger(value))
    refuse(`is ${value}, beyond 2^53-1; send it as text`);
  if (kind === "null" || kind === "boolean" || Number.isFinite(value)) return `${value}`;

  const tag = Object.prototype.toString.call(value).slice(8, -1);
  if (kind !== "object" || !/^(Object|Array)$/.test(tag))
    refuse(`is ${kind === "number" ? value : tag}, which JSON has no form for`);
  if (path.length >= MAX_DEPTH) refuse(`… is deeper than ${MAX_DEPTH} levels (or contains itself)`, path.slice(0, 3));
  if (tag === "Array") return `[${Array.from(value, (item, index) => encodeJson(item, [...path, index]))}]`;
  return `{${Object.keys(value)
    .filter((name) => value[name] !== undefined)
    .map((name) => `${encodeJson(name, [...path, name])}:${encodeJson(value[name], [...path, name])}`)}}`;
}
