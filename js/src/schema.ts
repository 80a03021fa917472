import { issuesText } from "./envelope.js";
import { InvalidReplyError } from "./errors.js";
import type { Issue, StandardSchema } from "./types.js";

/** The value as the schema gives it, or as it is without one. Rejects with `InvalidReplyError`. */
export async function fit<T>(schema: StandardSchema<T> | undefined, reply: unknown, what: string): Promise<T> {
  if (!schema) return reply as T;
  const result = await schema["~standard"].validate(reply);
  if (!result.issues) return result.value;
  const issues = result.issues.map(({ path = [], message }) => ({
    path: path.map((step) => (step as { key: PropertyKey }).key ?? step),
    message,
  })) as Issue[];
  throw new InvalidReplyError(`${what} does not fit: ${issuesText(issues, "value")}`, { reply, issues });
}
