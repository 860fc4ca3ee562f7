/**
 * Writes what is generated from the schema of the configuration: `docs/weir.schema.json` and
 * `docs/configuration.md`.
 */

import { join } from 'node:path'
import { jsonSchema } from '../src/config/schema-file.ts'
import { configurationPage } from './configuration-page.ts'

const ROOT = join(import.meta.dir, '..')

await Bun.write(join(ROOT, 'docs/weir.schema.json'), jsonSchema())
await Bun.write(join(ROOT, 'docs/configuration.md'), configurationPage())
