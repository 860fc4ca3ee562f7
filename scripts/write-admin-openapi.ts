/** Writes `docs/openapi-admin.json`, the OpenAPI document of the admin API. */

import { join } from 'node:path'
import { adminOpenApi } from '../tools/openapi/admin-document.ts'

await Bun.write(join(import.meta.dir, '../docs/openapi-admin.json'), `${JSON.stringify(adminOpenApi(), null, 2)}\n`)
