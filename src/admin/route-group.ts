/** Routes of the admin port: exact paths alone, and none of Elysia's own. */

import { Elysia } from 'elysia'

export function newRoutes() {
  return new Elysia({ strictPath: true, systemRouter: false, handler: { standardHostname: false } })
}
