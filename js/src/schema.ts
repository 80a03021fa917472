/** Checking what the agent sent by a schema of zod, valibot, arktype or others: whatever follows Standard Schema. */

import { issuesText } from "./envelope.js";
import { InvalidReplyError } from "./errors.js";
import type { Issue, MessageHandler, StandardSchema } from "./types.js";
import { safely } from "./waiting.js";

/**
 * The value as the schema gives it: `await fit(Quote, agent.ask("quote"))`. Rejects with `InvalidReplyError`, and with
 * what the value rejects with.
 */
export async function fit<T>(schema: StandardSchema<T>, value: unknown): Promise<T> {
  const reply = await value;
  const result = await schema["~standard"].validate(reply);
  if (!result.issues) return result.value;
  const issues = result.issues.map(({ path = [], message }) => ({
    path: path.map((step) => (step as { key: PropertyKey }).key ?? step),
    message,
  })) as Issue[];
  throw new InvalidReplyError(`what the agent sent does not fit: ${issuesText(issues)}`, { reply, issues });
}

/**
 * A handler of payloads that fit, in the order sent, with the type that the schema gives:
 * `agent.on("show-form", fitting(Form, openForm))`. What does not fit is reported and not handed on.
 */
export const fitting = <T>(schema: StandardSchema<T>, handler: MessageHandler<T>): MessageHandler => {
  let before: Promise<void> = Promise.resolve(); // a schema may take its time; the order stays
  return (payload, meta) => {
    before = before
      .then(() => fit(schema, payload))
      .then(
        (value) => void safely(() => handler(value, meta)),
        (error) => safely(() => Promise.reject(error)),
      );
  };
};
