import { z } from 'zod';

/** What is wrong with a value of the file, or worth knowing about it, and where in the file it is. */
export interface SchemaIssue {
  readonly path: readonly (string | number)[];
  /** A key that is not known: the issue is about the key, not about a value. */
  readonly unknownKey?: { readonly key: string; readonly known: readonly string[] };
  readonly message: string;
  /** Absent: an error. */
  readonly severity?: 'warning' | 'info';
}

/** Turns `limits: auto` and `wait: 10s` into the longer form. */
export function spread<Schema extends z.ZodType>(keys: readonly string[], schema: Schema): z.ZodType<z.infer<Schema>> {
  const long = (value: unknown): unknown =>
    typeof value === 'string' || typeof value === 'number'
      ? Object.fromEntries(keys.map((key) => [key, value]))
      : value;
  return z.preprocess(long, schema) as unknown as z.ZodType<z.infer<Schema>>;
}

/** A list; one whose items are all commented out counts as empty. */
export function list<Schema extends z.ZodType>(schema: Schema): z.ZodType<z.infer<Schema>[]> {
  return z.preprocess((value) => value ?? [], z.array(schema)) as unknown as z.ZodType<z.infer<Schema>[]>;
}

/** Sets `key` where the file said something, and leaves the default where it did not. */
export function put<Target, Key extends keyof Target>(target: Target, key: Key, value: Target[Key] | undefined): void {
  if (value !== undefined) target[key] = value;
}
