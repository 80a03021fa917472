/** JSON text, byte for byte the same as the Python package writes it, with the path of what cannot be written. */

import { MAX_DEPTH } from "./contract.js";
import { InvalidPayloadError } from "./errors.js";

type Path = readonly (string | number)[];

/** With the flag u, halves of a pair do not match: what is found stands alone. */
export const LONE_SURROGATE = /[\ud800-\udfff]/u;

/** A path as people write it: `items.2.name`. */
export const pathText = (path: Path, whole: string): string => path.join(".") || whole;

/**
 * The value as compact JSON text. What has a `toJSON` is written as that says, like a Date; undefined properties are
 * left out.
 *
 * Throws `InvalidPayloadError`: NaN or infinity, a lone surrogate, a whole number beyond 2^53-1, a cycle, more than 200
 * levels, or what JSON has no form for (undefined in an array, a function, BigInt, Map, Promise …).
 */
export const encodeJson = (given: unknown): string => {
  /** Copies of the objects and arrays around the value: each is new, so one that contains itself just gets deep. */
  const around: unknown[] = [];
  const path: (string | number)[] = [];

  return JSON.stringify(given, function (this: unknown, key: string, value) {
    const refuse = (what: string): never => {
      throw new InvalidPayloadError(`${pathText(path.slice(0, 9), "payload")} ${what}`, { path });
    };
    const depth = around.indexOf(this) + 1;
    const inArray = Array.isArray(this);
    around.length = depth;
    path.length = depth;
    if (depth) path[depth - 1] = inArray ? +key : key;

    if (value === undefined && depth && !inArray) return;
    const isNumber = typeof value === "number";
    const tag = isNumber ? value : Object.prototype.toString.call(value).slice(8, -1);
    if (LONE_SURROGATE.test(key) || (tag === "String" && LONE_SURROGATE.test(value)))
      refuse("has a lone surrogate; remove it");
    if (isNumber ? !(Number.isSafeInteger(value) || value % 1) : !/^(Object|Array|String|Boolean|Null)$/.test(tag))
      refuse(`is ${tag}, beyond JSON (whole numbers: to 2^53-1)`);
    if (!/^[OA]/.test(tag)) return value;
    if (depth >= MAX_DEPTH) refuse(`… is over ${MAX_DEPTH} levels deep`);
    around.push((value = tag === "Array" ? [...value] : { ...value }));
    return value;
  });
};
