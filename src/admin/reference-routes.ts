/** The reference of the inference API on the admin port: its page, the files that the page loads, and the document. */

import { REFERENCE_PATHS, type ReferencePath } from '../reference/reference-paths.ts'
import { COMMON_HEADERS } from './json-answers.ts'
import { newRoutes } from './route-group.ts'

/** The page loads nothing from elsewhere, and has no styles or scripts of its own. */
const SECURITY_POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export function referenceRoutes() {
  const app = newRoutes()
  for (const path of REFERENCE_PATHS) app.get(path, () => answerFile(path))
  return app
}

/** Loads the page on first use: every start would pay for it. */
async function answerFile(path: ReferencePath): Promise<Response> {
  const { referenceFile } = await import('../reference/reference-files.ts')
  const { type, text } = await referenceFile(path)
  return new Response(text, {
    headers: { ...COMMON_HEADERS, 'content-type': type, 'content-security-policy': SECURITY_POLICY },
  })
}
