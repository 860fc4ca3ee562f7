/** The recorded provider streams of `test/fixtures/providers`, with what their manifest says must come out of each. */

import { readFileSync } from 'node:fs'

export interface Wanted {
  readonly text?: string
  readonly text_sha256?: string
  readonly text_length_utf16?: number
  readonly tool_calls?: readonly {
    readonly id?: string
    readonly name: string
    readonly arguments?: string
    readonly arguments_sha256?: string
  }[]
  /** The provider's own word. */
  readonly finish_reason?: string
  readonly usage?: Readonly<Record<string, number>>
  readonly chat_usage?: Readonly<Record<string, number>>
  readonly refusal?: string
  /** What the model thought, where the provider showed it. */
  readonly reasoning?: string
  /** False: no whole answer, to be cut or to be given to the next candidate. */
  readonly terminal: boolean
}

export interface Fixture {
  readonly file: string
  readonly bytes: Uint8Array
  readonly status: number
  readonly content_type: string
  readonly headers?: Readonly<Record<string, string>>
  readonly note: string
  readonly expect: Wanted
}

const FOLDER = `${import.meta.dir}/../fixtures/providers/`

/** All fixtures whose file begins so (`openai/`, `errors/`). */
export function fixtures(prefix: string): Fixture[] {
  const manifest: readonly Omit<Fixture, 'bytes'>[] = JSON.parse(readFileSync(`${FOLDER}manifest.json`, 'utf8'))
  return manifest
    .filter(({ file }) => file.startsWith(prefix))
    .map((entry) => ({ ...entry, bytes: new Uint8Array(readFileSync(FOLDER + entry.file)) }))
}
