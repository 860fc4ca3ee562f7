/** Writes `src/config/weir.schema.json` anew after a change of the configuration's schema: bun scripts/write-schema.ts */

import { join } from 'node:path'
import { jsonSchema } from '../src/config/json-schema.ts'

await Bun.write(join(import.meta.dir, '../src/config/weir.schema.json'), jsonSchema())
