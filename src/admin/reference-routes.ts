/** The reference of the inference API on the admin port: its page, the files that the page loads, and the document. */

import { REFERENCE_PATHS, type ReferencePath } from '../reference/reference-paths.ts'
import { COMMON_HEADERS } from './json-answers.ts'
import { newRoutes } from './route-group.ts'

/** The page loads nothing from elsewhere, and has no styles or scripts of its own. */
const SECURITY_POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export function referenceRoutes() {
  const app = newRoutes()
  for (const path of REFERENCE_PATHS) app.get(path, ({ request }) => answerFile(request, path))
  return app
}

/** Loads the page on first use: every start would pay for it. */
async function answerFile(request: Request, path: ReferencePath): Promise<Response> {
  const { referenceFile } = await import('../reference/page/reference-files.ts')
  const { type, text, tag } = await referenceFile(path)
  const headers = {
    ...COMMON_HEADERS,
    'cache-control': 'no-cache',
    'content-security-policy': SECURITY_POLICY,
    etag: tag,
  }
  if (request.headers.get('if-none-match') === tag) return new Response(null, { status: 304, headers })
  return new Response(text, { headers: { ...headers, 'content-type': type } })
}
