/**
 * The files of the reference: the document, its page, and what the page loads. They are read and made at the first
 * request for one of them.
 */

import openApiPath from '../../docs/openapi.json' with { type: 'file' }
import adminPath from '../../docs/openapi-admin.json' with { type: 'file' }
import { isObject, type JsonValue } from '../core/json.ts'
import icon from './reference-icon.svg' with { type: 'text' }
import { referencePage } from './reference-page.ts'
import { REFERENCE_FILES, type ReferencePath } from './reference-paths.ts'
import script from './reference-script.js' with { type: 'text' }
import style from './reference-style.css' with { type: 'text' }

interface ReferenceFile {
  readonly type: string
  readonly text: string
}

let files: Promise<Readonly<Record<ReferencePath, ReferenceFile>>> | undefined

/** Throws if the document cannot be read; the next request tries again. */
export async function referenceFile(path: ReferencePath): Promise<ReferenceFile> {
  files ??= allFiles().catch((error: unknown) => {
    files = undefined
    throw error
  })
  return (await files)[path]
}

/** The OpenAPI document of the admin API. */
export function adminDocument(): Promise<string> {
  return Bun.file(String(adminPath)).text()
}

async function allFiles(): Promise<Readonly<Record<ReferencePath, ReferenceFile>>> {
  // TypeScript takes this import for the JSON itself; Bun gives the path of the file, within the executable, too.
  const text = await Bun.file(String(openApiPath)).text()
  const document: JsonValue = JSON.parse(text)
  if (!isObject(document)) throw new Error('docs/openapi.json is not an object')
  return {
    [REFERENCE_FILES.page]: { type: 'text/html; charset=utf-8', text: referencePage(document, REFERENCE_FILES) },
    [REFERENCE_FILES.style]: { type: 'text/css; charset=utf-8', text: style },
    [REFERENCE_FILES.script]: { type: 'text/javascript; charset=utf-8', text: script },
    [REFERENCE_FILES.icon]: { type: 'image/svg+xml', text: icon },
    [REFERENCE_FILES.document]: { type: 'application/json', text },
  }
}
