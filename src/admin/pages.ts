/**
 * What the admin port shows in a browser: the console and the reference of the inference API, with their files. They
 * have no figures of this weir, so they need no token. Their code is loaded at the first request: every start would pay
 * for it, and a checkout bundles the console then, which takes 60 ms.
 */

import { REFERENCE_PATHS, type ReferencePath } from '../reference/reference-paths.ts'
import type { ConsoleFiles } from './console-files.ts'
import { AdminError, COMMON_HEADERS } from './json-answers.ts'

/** Everything comes from this port, and nothing that a page shows can run. */
const POLICY = "default-src 'self'; base-uri 'none'; frame-ancestors 'none'"
/** A script or a style in a name that a caller chose has no effect. */
const CONSOLE_POLICY = `${POLICY}; form-action 'self'; object-src 'none'; require-trusted-types-for 'script'`
const REFERENCE_POLICY = `${POLICY}; form-action 'none'`

/** The paths, as routes. */
export const PAGE_PATHS: readonly string[] = ['/', '/console/:file', ...REFERENCE_PATHS]

/** Whether the path is that of a page or of one of its files. */
export function isPage(path: string): boolean {
  return path === '/' || path.startsWith('/console/') || isReference(path)
}

function isReference(path: string): path is ReferencePath {
  return REFERENCE_PATHS.some((each) => each === path)
}

let consoleFiles: Promise<ConsoleFiles> | undefined

/** The answer for a path of `isPage`. Throws `AdminError` 404 for a file that the console does not have. */
export async function pageAnswer(path: string): Promise<Response> {
  if (isReference(path)) {
    const { referenceFile } = await import('../reference/reference-files.ts')
    const { type, text } = await referenceFile(path)
    return answer(text, type, REFERENCE_POLICY)
  }
  consoleFiles ??= import('./console-files.ts')
    .then(({ loadConsoleFiles }) => loadConsoleFiles())
    .catch((error: unknown) => {
      consoleFiles = undefined
      throw error
    })
  const { page, files } = await consoleFiles
  if (path === '/') return answer(page, 'text/html;charset=utf-8', CONSOLE_POLICY)
  const file = files.get(path.slice('/console/'.length))
  if (file === undefined) throw new AdminError(404, 'not_found', 'The console has no such file. Reload its page.')
  return new Response(file.body, { headers: { ...COMMON_HEADERS, 'content-type': file.type } })
}

function answer(text: string, type: string, policy: string): Response {
  return new Response(text, {
    headers: { ...COMMON_HEADERS, 'content-type': type, 'content-security-policy': policy },
  })
}
