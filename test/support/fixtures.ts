/**
 * The recorded provider streams of `test/fixtures/providers`; the manifest of each folder states the expected result of
 * each.
 */

import { readFileSync } from 'node:fs'

export interface Wanted {
  readonly text?: string
  readonly text_sha256?: string
  readonly text_length_utf16?: number
  readonly tool_calls?: readonly {
    readonly id?: string | null
    readonly name: string
    readonly arguments?: string
    readonly arguments_sha256?: string
  }[]
  /** The provider's finish reason. */
  readonly finish_reason?: string | null
  readonly usage?: Readonly<Record<string, number>>
  readonly chat_usage?: Readonly<Record<string, number>>
  readonly refusal?: string
  /** The model's reasoning, if the provider sent it. */
  readonly reasoning?: string
  /** True if the result must be a `ProviderError` other than `cut`. */
  readonly error?: boolean
  /** False if the answer is incomplete: it must be cut, or the next candidate tried. */
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

/** Every entry of every folder's manifest, in the order of the folders' names. */
export const manifest: readonly Omit<Fixture, 'bytes'>[] = [
  ...new Bun.Glob('*/manifest.json').scanSync({ cwd: FOLDER }),
]
  .sort()
  .flatMap((file) => JSON.parse(readFileSync(FOLDER + file, 'utf8')))

export function fixtureBytes(file: string): Uint8Array {
  return new Uint8Array(readFileSync(FOLDER + file))
}

/** All fixtures in files whose path begins with `prefix` (`openai/`, `errors/`). */
export function fixtures(prefix: string): Fixture[] {
  return manifest
    .filter(({ file }) => file.startsWith(prefix))
    .map((entry) => ({ ...entry, bytes: fixtureBytes(entry.file) }))
}
