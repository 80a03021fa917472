/** JSON text, byte for byte the same as the Python package writes it, with the path of what cannot be written. */

import { MAX_DEPTH } from "./contract.js";
import { InvalidPayloadError } from "./errors.js";

type Path = readonly (string | number)[];

/** With the flag u, halves of a pair do not match: what is found stands alone. */
export const LONE_SURROGATE = /[\ud800-\udfff]/u;

/** A path as people write it: `items.2.name`. */
export const pathText = (path: Path): string => path.join(".") || "payload";

/**
 * The value as compact JSON text. What has a `toJSON` is written as that says, like a Date; undefined properties are
 * left out.
 *
 * Throws `InvalidPayloadError`: NaN or infinity, a lone surrogate, a whole number beyond 2^53-1, a cycle, more than 200
 * levels, or what JSON has no form for (undefined in an array, a function, BigInt, Map, Promise …).
 */
export const encodeJson = (given: unknown): string => {
  /** The paths of copied objects and arrays: each copy is new, so one that contains itself just gets deep. */
  const paths = new Map<unknown, Path>();

  return JSON.stringify(given, function (this: unknown, key: string, value) {
    const refuse = (what: string): never => {
      throw new InvalidPayloadError(`${pathText(path)} is ${what}; send JSON (integers to 2^53-1)`, { path });
    };
    const above = paths.get(this);
    const inArray = Array.isArray(this);
    const path = above ? [...above, inArray ? +key : key] : [];

    if (value === undefined && above && !inArray) return;
    const isNumber = typeof value === "number";
    const tag = isNumber ? value : {}.toString.call(value).slice(8, -1);
    if (LONE_SURROGATE.test(key) || (tag === "String" && LONE_SURROGATE.test(value)))
      refuse("text with lone surrogates");
    if (isNumber ? !(Number.isSafeInteger(value) || value % 1) : !/^(Object|Array|String|Boolean|Null)$/.test(tag))
      refuse(tag);
    if (!/^[OA]/.test(tag)) return value;
    if (path.length >= MAX_DEPTH) refuse(`over ${MAX_DEPTH} levels deep`);
    paths.set((value = tag === "Array" ? [...value] : { ...value }), path);
    return value;
  });
};
