/** The JSON Schema of the configuration file, for editors and for readers: made from the schema that checks it, and kept beside it as `weir.schema.json`. */

import { schema } from './schema-file.ts'

/** The text of the file. TypeBox schemas are JSON Schema already; what the program alone needs are symbols, which JSON leaves out. */
export function jsonSchema(): string {
  return `${JSON.stringify({ $schema: 'https://json-schema.org/draft/2020-12/schema', ...schema }, undefined, 2)}\n`
}
