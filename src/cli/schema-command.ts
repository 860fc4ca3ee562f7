/** `weir schema`: prints the JSON Schema of the configuration. */

import { jsonSchema } from '../config/schema-file.ts'
import { exit, parseFlags } from './command.ts'

/** Returns the exit code. */
export function schema(args: readonly string[]): number {
  parseFlags(args, 'schema')
  process.stdout.write(jsonSchema())
  return exit.done
}
