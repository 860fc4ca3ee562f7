/**
 * The files of the console. The compiled executable contains them, bundled by `scripts/build`; from a checkout they are
 * bundled here, at the first request. A file of its own because Bun 1.4.5 cannot compile `await import` of a page: it
 * makes a program that fails at that line. Loaded at the first request, by `pages.ts`.
 */

import { basename } from 'node:path'
import page from '../console/page.html'

/** The path of the files; the page itself is at `/`. */
const FILES_PATH = '/console/'

export interface ConsoleFiles {
  /** The page, which names its files below `FILES_PATH`. */
  readonly page: string
  /** By name. A name has a hash of the content in it. */
  readonly files: ReadonlyMap<string, { readonly body: Blob; readonly type: string }>
}

/** Rejects if the sources of a checkout cannot be bundled. */
export async function loadConsoleFiles(): Promise<ConsoleFiles> {
  const outputs = await outputsOf()
  const isPage = ({ path }: Output) => path.endsWith('.html')
  let text = (await outputs.find(isPage)?.body.text()) ?? ''
  const files = new Map<string, { readonly body: Blob; readonly type: string }>()
  for (const output of outputs) {
    if (isPage(output)) continue
    const name = basename(output.path)
    files.set(name, output)
    text = text.replaceAll(`"/${name}"`, `"${FILES_PATH}${name}"`)
  }
  return { page: text, files }
}

interface Output {
  readonly path: string
  readonly type: string
  readonly body: Blob
}

async function outputsOf(): Promise<readonly Output[]> {
  if (page.files !== undefined) {
    return page.files.map(({ path, headers }) => ({ path, type: headers['content-type'], body: Bun.file(path) }))
  }
  const { outputs } = await Bun.build({ entrypoints: [page.index], minify: true, publicPath: '/' })
  return outputs.map((body) => ({ path: body.path, type: body.type, body }))
}
