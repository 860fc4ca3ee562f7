/** `GET /`, the console, and its files. They have no figures of this weir, so they need no token. */

import type { ConsoleFiles } from './console-files.ts'
import { AdminError, COMMON_HEADERS } from './json-answers.ts'
import { newRoutes } from './route-group.ts'

/**
 * Everything comes from this port, and nothing that the page shows can run: a script or a style in a name that a caller
 * chose has no effect.
 */
const POLICY =
  "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; " +
  "require-trusted-types-for 'script'"

/** Whether the path is that of the console or of one of its files. */
export function isConsolePath(path: string): boolean {
  return path === '/' || path.startsWith('/console/')
}

export function consoleRoutes() {
  let loading: Promise<ConsoleFiles> | undefined
  const files = () => {
    loading ??= load().catch((error: unknown) => {
      loading = undefined
      throw error
    })
    return loading
  }
  return newRoutes()
    .get('/', async () => {
      const { page } = await files()
      const type = 'text/html;charset=utf-8'
      return new Response(page, {
        headers: { ...COMMON_HEADERS, 'content-type': type, 'content-security-policy': POLICY },
      })
    })
    .get('/console/:file', async ({ params }) => {
      const file = (await files()).files.get(params.file)
      if (file === undefined) throw new AdminError(404, 'not_found', 'The console has no such file. Reload its page.')
      return new Response(file.body, { headers: { ...COMMON_HEADERS, 'content-type': file.type } })
    })
}

/** Loaded at the first request: a checkout bundles the page then, which takes 60 ms. */
async function load(): Promise<ConsoleFiles> {
  const { loadConsoleFiles } = await import('./console-files.ts')
  return await loadConsoleFiles()
}
