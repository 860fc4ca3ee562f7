/** A small valid configuration, and helpers to change and load it. */

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the configuration file are written so

import { expect } from 'bun:test'
import type { Config } from '../../src/config/config.ts'
import { type ParseOptions, type ParseResult, parseConfig } from '../../src/config/parse.ts'
import type { Problem } from '../../src/config/problems.ts'

export const BASE = `
providers:
  openai: { dialect: openai, api_key: "\${OPENAI_API_KEY}" }
  anthropic: { dialect: anthropic, api_key: x }
models:
  - name: gpt
    aliases: [mini]
    targets: [{ provider: openai, model: gpt-1 }]
    fallbacks: [claude]
    price: { input: 0.25, cached_input: 0.025, output: 2 }
  - name: claude
    targets: [{ provider: anthropic, model: claude-1 }]
    price: { input: 3, output: 15 }
  - name: painter
    targets: [{ provider: openai, model: image-1 }]
    price: { image: 0.04 }
    supports: [image_generation]
auto: { candidates: [gpt, claude] }
organizations:
  - id: acme
    auto: available
    limits: { spend: { day: 50 } }
    keys:
      - { id: ci, key: 0123456789abcdef0 }
      - { id: app, sha256: ff361e9c224c8a0c4720d375ba4c3f8c2034858b80bb374f8d25203452f2f38c }
`

export const options: ParseOptions = {
  env: { OPENAI_API_KEY: 'sk-canary-openai', PORT: '8181', FLAG: 'true', DIGITS: '1234567890123456' },
  cores: 2,
  readFile: (path) => (path === 'there' ? { text: 'from a file' } : { error: 'there is no such file' }),
}

export function parse(text: string, changes: Partial<ParseOptions> = {}): ParseResult {
  return parseConfig(text, { ...options, ...changes })
}

/** `text` with one piece replaced; the piece must exist. */
export function edited(from: string, to: string, text: string = BASE): string {
  expect(text).toContain(from)
  return text.replace(from, () => to)
}

export function good(text: string, changes: Partial<ParseOptions> = {}): Config {
  const result = parse(text, changes)
  if (!result.ok) throw new Error(linesOf(result.problems).join('\n'))
  return result.config
}

export function problems(text: string, changes: Partial<ParseOptions> = {}): readonly string[] {
  const result = parse(text, changes)
  return result.ok ? [] : linesOf(result.problems)
}

/** Without their lines in the file and the values found. */
export function linesOf(list: readonly Problem[]): readonly string[] {
  return list.map(({ path, message }) => `${path}: ${message}`)
}
