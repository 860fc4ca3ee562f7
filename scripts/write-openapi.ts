/** Writes `docs/openapi.json`, the OpenAPI document of the inference API. */

import { join } from 'node:path'
import { openApiText } from '../tools/openapi/document-source.ts'

await Bun.write(join(import.meta.dir, '../docs/openapi.json'), openApiText())
