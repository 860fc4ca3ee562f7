/** Holds the repository to the rules of the house; each complaint names the file, what is wrong and what to do instead. */

import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { languageProblems, repeatedNames, unknownDocuments } from './support/language.ts'
import { parseSource, readSource, type Source } from './support/source.ts'
import {
  deadFiles,
  forbiddenImports,
  forbiddenUses,
  forbiddenWords,
  importCycles,
  longFunctions,
  smallFiles,
  unexplainedPackages,
  unusedExports,
  vagueNames,
  withoutOpening,
} from './support/tidy.ts'

const ROOT = join(import.meta.dir, '..')
const OURS = ['src', 'test', 'scripts', 'tools']

function filesBelow(folder: string, pattern: string): string[] {
  return [...new Bun.Glob(`${folder}/${pattern}`).scanSync({ cwd: ROOT, dot: false, onlyFiles: true })]
    .map((path) => path.replaceAll('\\', '/'))
    .sort()
}

/** Everything that is kept in the repository as text; fixtures are other people's bytes. */
function textFiles(): string[] {
  const top = [...new Bun.Glob('*').scanSync({ cwd: ROOT, dot: true, onlyFiles: true })]
  const below = [...OURS, '.ci', 'docs'].flatMap((folder) =>
    existsSync(join(ROOT, folder)) ? filesBelow(folder, '**/*') : [],
  )
  // In a second work tree `.git` is a file, and says where the first one is.
  return [...top, ...below].filter((path) => !path.startsWith('test/fixtures/') && path !== '.git')
}

const files = OURS.flatMap((folder) => filesBelow(folder, '**/*')).filter((path) => !path.startsWith('test/fixtures/'))
const sources = files.filter((path) => path.endsWith('.ts')).map((path) => readSource(ROOT, path))
const below = (folder: string) => sources.filter((source) => source.path.startsWith(`${folder}/`))

/** The rules spell the words that they forbid. */
function isRule(path: string): boolean {
  return path === 'test/support/language.ts' || path === 'test/tidy.test.ts'
}

describe('the repository', () => {
  test('imports only what the table of the house allows', () => {
    expect(forbiddenImports(below('src'))).toEqual([])
  })

  test('reads the environment, calls fetch and makes a Response where that belongs', () => {
    expect(forbiddenUses(below('src'))).toEqual([])
  })

  test('has no function over 70 lines', () => {
    expect(longFunctions([...OURS.filter((folder) => folder !== 'test').flatMap(below)])).toEqual([])
  })

  test('opens each file with its duty', () => {
    // A test file's name says what it tests.
    expect(withoutOpening(sources.filter((source) => !source.path.endsWith('.test.ts')))).toEqual([])
    const others = files.filter((path) => path.endsWith('.lua') || path.endsWith('.sql'))
    expect(others.filter((path) => !readFileSync(join(ROOT, path), 'utf8').startsWith('--'))).toEqual([])
  })

  test('has no import cycle', () => {
    expect(importCycles(sources)).toEqual([])
  })

  test('has no unused file', () => {
    // The page of the console loads its script.
    const pages = ['src/main.ts', 'src/console/page.ts']
    const roots = [...pages, ...['scripts', 'tools'].flatMap(below).map((source) => source.path)]
    expect(deadFiles(sources, files, roots)).toEqual([])
  })

  test('has no short file with one importer beside it', () => {
    expect(smallFiles(sources)).toEqual([])
  })

  test('has no unused export', () => {
    expect(unusedExports(sources)).toEqual([])
  })

  test('names its files after what they own', () => {
    expect(vagueNames(files)).toEqual([])
  })

  test('mentions the product only', () => {
    expect(textFiles().flatMap((path) => forbiddenWords(path, readFileSync(join(ROOT, path), 'utf8')))).toEqual([])
  })

  test('names only existing files in its documents', () => {
    // Their links are checked in `test/docs`.
    const paths = /(?<![\w/.-])(?:src|test|scripts|tools|contrib|docs)\/[\w./*-]*\w/g
    const missing = textFiles().flatMap((document) => {
      if (!document.endsWith('.md')) return []
      const named = [...readFileSync(join(ROOT, document), 'utf8').matchAll(paths)].map(([path]) => path)
      return named
        .filter((path) => !path.includes('*') && !existsSync(join(ROOT, path)))
        .map((path) => `${document}: ${path}`)
    })
    expect(missing).toEqual([])
  })

  test('is written in plain language', () => {
    const texts = textFiles().filter((path) => /\.(?:ts|lua|sql|md|sh|yaml)$|^scripts\/[\w-]+$/.test(path))
    const checked = texts.filter((path) => !isRule(path))
    const documents = new Set(textFiles().flatMap((path) => (path.endsWith('.md') ? [basename(path)] : [])))
    const problems = checked.flatMap((path) => {
      const text = readFileSync(join(ROOT, path), 'utf8')
      return [...languageProblems(path, text), ...unknownDocuments(path, text, documents)]
    })
    expect(problems).toEqual([])
  })

  test('awaits each expectation about a promise', () => {
    // Bun's runner blocks until the promise is settled; in any other such a test could not fail.
    const floating = /^\s*expect\([^\n]*\)\.(?:rejects|resolves)\./m
    const tests = files.filter((path) => path.startsWith('test/') && path.endsWith('.ts'))
    expect(tests.filter((path) => floating.test(readFileSync(join(ROOT, path), 'utf8')))).toEqual([])
  })

  test('uses a file name once', () => {
    expect(repeatedNames(files.filter((path) => path.startsWith('src/')))).toEqual([])
  })

  test('gives a reason for each dependency', () => {
    const manifest: { dependencies?: object; devDependencies?: object } = JSON.parse(
      readFileSync(join(ROOT, 'package.json'), 'utf8'),
    )
    const packages = [...Object.keys(manifest.dependencies ?? {}), ...Object.keys(manifest.devDependencies ?? {})]
    expect(unexplainedPackages(packages, readFileSync(join(ROOT, 'docs/dependencies.md'), 'utf8'))).toEqual([])
  })

  test('takes exact versions only, and runs no install scripts', () => {
    const manifest: Record<string, object | undefined> = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const versions = Object.entries({ ...manifest['dependencies'], ...manifest['devDependencies'] })
    expect(
      versions.filter(([, version]) => !/^(?:npm:@?[\w./-]+@)?\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(String(version))),
    ).toEqual([])
    expect(manifest['trustedDependencies']).toEqual([])
  })
})

/** A file of one import, for the table below. */
function importing(path: string, specifier: string): Source {
  return parseSource(`src/${path}`, `/** . */\nimport {} from '${specifier}'\n`)
}

describe('the rules themselves', () => {
  const rows: readonly (readonly [path: string, specifier: string, allowed: boolean])[] = [
    ['core/a.ts', './b.ts', true],
    ['core/a.ts', '../wire/b.ts', false],
    ['core/a.ts', 'node:crypto', false],
    ['wire/a.ts', '../core/b.ts', true],
    ['wire/a.ts', '../providers/provider.ts', false],
    ['dialects/chat/schema.ts', '@sinclair/typebox/compiler', true],
    ['dialects/body-schema.ts', '@sinclair/typebox', true],
    ['dialects/chat/request.ts', '@sinclair/typebox', false],
    ['dialects/chat/request.ts', '../../providers/provider.ts', false],
    ['dialects/chat/request.ts', '../responses/request.ts', false],
    ['dialects/chat/request.ts', '../dialect.ts', true],
    ['dialects/error-body.ts', './chat/request.ts', false],
    ['providers/openai/events.ts', '../../wire/frames.ts', true],
    ['providers/openai/events.ts', '../anthropic/events.ts', false],
    ['providers/openai/events.ts', '@smithy/eventstream-codec', false],
    ['providers/event-stream.ts', '@smithy/eventstream-codec', true],
    ['gateway/flow.ts', '../dialects/dialect.ts', true],
    ['gateway/flow.ts', '../dialects/errors.ts', false],
    ['gateway/flow.ts', '../providers/openai/events.ts', false],
    ['gateway/flow.ts', '../http/app.ts', false],
    ['gateway/flow.ts', 'elysia', false],
    ['http/app.ts', 'elysia', true],
    ['http/app.ts', '../ledger/ledger.ts', false],
    ['admin/admin-app.ts', '../ledger/ledger.ts', true],
    ['ledger/redis/redis-ledger.ts', 'ioredis', true],
    ['ledger/ledger.ts', 'ioredis', false],
    ['ledger/redis/redis-ledger.ts', './delivery/settle-call.ts', true],
    ['ledger/redis/store/redis-store.ts', '../protocol/epochs.ts', true],
    ['ledger/redis/store/redis-store.ts', '../delivery/settle-call.ts', false],
    ['ledger/redis/protocol/link.ts', '../redis-link.ts', false],
    ['ledger/redis/outbox/outbox.ts', '../recovery/restoration.ts', false],
    ['ledger/redis/elsewhere/a.ts', '../store/redis-store.ts', false],
    ['ledger/embedded/embedded-ledger.ts', 'bun:sqlite', true],
    ['ledger/redis/redis-ledger.ts', 'bun:sqlite', false],
    ['config/document.ts', 'yaml', true],
    ['config/load.ts', 'yaml', false],
    ['assembly/version.ts', '../../package.json', true],
    ['core/version.ts', '../../package.json', false],
    ['config/load.ts', '../catalog/catalog.ts', false],
    ['config/schema-file.ts', '@sinclair/typebox', true],
    ['process/worker.ts', '../http/app.ts', true],
    ['process/worker.ts', 'elysia', false],
    ['process/worker.ts', './ipc/ipc.ts', true],
    ['process/children/worker-set.ts', '../ipc/ipc.ts', true],
    ['process/ipc/ipc.ts', '../children/worker-set.ts', false],
    ['process/children/worker-set.ts', '../supervisor.ts', false],
    ['process/watchers/model-watch.ts', '../../admin/down-models.ts', true],
    ['process/elsewhere/a.ts', '../ipc/ipc.ts', false],
    ['main.ts', './cli/serve.ts', true],
    ['elsewhere/a.ts', './b.ts', false],
    ['core/a.ts', '../../test/support/random.ts', false],
    ['main.ts', '../scripts/bench.ts', false],
  ]
  test.each(rows)('%s imports %s: %p', (path, specifier, allowed) => {
    expect(forbiddenImports([importing(path, specifier)]).length === 0).toBe(allowed)
  })

  test('find every form of import', () => {
    const text = `/** . */
      import a from './a.ts'
      import type { B } from './b.ts'
      export { c } from './c.ts'
      export * from './d.ts'
      export type { E } from './e.ts'
      const f = await import('./f.ts')
      type G = import('./g.ts').G
      const h = new URL('./h.ts', import.meta.url)
      import './i.ts'
      const no = new URL('./no.ts', base)`
    const found = parseSource('src/main.ts', text).imports.map(({ what }) => what)
    expect(found.sort()).toEqual('abcdefghi'.split('').map((name) => `./${name}.ts`))
  })

  test('find the environment, fetch and Response under other names', () => {
    const uses = (line: string) => parseSource('src/core/a.ts', line).uses.map(({ what }) => what)
    expect(uses(`process.env['A']; Bun.env.A; import.meta.env; globalThis.process.env`)).toHaveLength(4)
    expect(uses(`fetch(u); globalThis.fetch(u); Bun.fetch(u)`)).toEqual(['fetch', 'fetch', 'fetch'])
    expect(uses(`app.fetch(r); upstream.fetch(r); const o = { fetch() {} }`)).toEqual([])
    expect(uses(`new Response(''); Response.json({}); new globalThis.Response('')`)).toHaveLength(3)
    expect(uses(`await import(name)`)).toEqual(['import of what is not a literal'])
    expect(forbiddenUses([parseSource('src/config/load.ts', 'process.env.A')])).toEqual([])
    expect(forbiddenUses([parseSource('src/config/watch.ts', 'process.env.A')])).toHaveLength(1)
    expect(forbiddenUses([parseSource('src/gateway/flow.ts', 'fetch(u)')])[0]).toContain('providers/upstream.ts')
  })

  test('measure functions of every kind', () => {
    const body = '\n;'.repeat(70)
    const kinds = [
      `function long() {${body}\n}`,
      `const long = () => {${body}\n}`,
      `class K { long() {${body}\n} }`,
      `const o = { long: function () {${body}\n} }`,
    ]
    for (const kind of kinds) expect(longFunctions([parseSource('src/core/a.ts', kind)])[0]).toMatch(/has 72 lines/)
    expect(longFunctions([parseSource('src/core/a.ts', `function fits() {${'\n;'.repeat(68)}\n}`)])).toEqual([])
  })

  test('require an opening comment', () => {
    const opens = (text: string) => withoutOpening([parseSource('src/a.ts', text)]).length === 0
    expect(opens('/** What. */\nconst a = 1')).toBe(true)
    expect(opens('#!/usr/bin/env bun\n// What.\nconst a = 1')).toBe(true)
    expect(opens('const a = 1\n/** Too late. */')).toBe(false)
    expect(opens('')).toBe(false)
  })

  test('find cycles and dead files', () => {
    const a = parseSource('src/core/a.ts', `import './b.ts'`)
    const b = parseSource('src/core/b.ts', `import './c.ts'`)
    const c = parseSource('src/core/c.ts', `import './a.ts'`)
    expect(importCycles([a, b, c])).toEqual([
      expect.stringContaining('src/core/a.ts → src/core/b.ts → src/core/c.ts → src/core/a.ts'),
    ])
    expect(importCycles([a, b])).toEqual([])
    const main = parseSource('src/main.ts', `import './core/b.ts'; import lua from './x.lua' with { type: 'text' }`)
    const all = ['src/main.ts', 'src/core/a.ts', 'src/core/b.ts', 'src/x.lua', 'src/y.lua']
    expect(deadFiles([main, b, a], all, ['src/main.ts']).map((line) => line.split(':')[0])).toEqual([
      'src/core/a.ts',
      'src/y.lua',
    ])
  })

  test('find short files with one importer beside them', () => {
    const at = (path: string, text = '') => parseSource(`src/${path}`, text)
    const small = (...others: readonly Source[]) => smallFiles([at('core/a.ts', '\n'.repeat(39)), ...others]).length
    expect(small(at('core/b.ts', `import './a.ts'`))).toBe(1)
    expect(small(at('core/b.ts', `import './a.ts'`), at('core/c.ts', `import './a.ts'`))).toBe(0)
    expect(small(at('core/b.ts', `import './a.ts'`), at('wire/c.ts', `import '../core/a.ts'`))).toBe(0)
    expect(small(at('wire/c.ts', `import '../core/a.ts'`))).toBe(0)
    expect(small(parseSource('test/core/a.test.ts', `import '../../src/core/a.ts'`))).toBe(0)
    expect(smallFiles([at('core/a.ts', '\n'.repeat(40)), at('core/b.ts', `import './a.ts'`)])).toEqual([])
    expect(small(at('core/b.ts', `import './a.ts'${'\n'.repeat(390)}`))).toBe(0)
    expect(smallFiles([at('dialects/chat/schema.ts'), at('dialects/chat/b.ts', `import './schema.ts'`)])).toEqual([])
  })

  test('find exports that nothing imports', () => {
    const text = `
      export const a = 1, b = 2
      export type C = 1
      export function d() {}
      export { a as e }
      export { f } from './g.ts'
      export * from './g.ts'
      export default 1`
    const exporting = parseSource('src/core/a.ts', text)
    const unused = (importer: string) =>
      unusedExports([exporting, parseSource('test/core/a.test.ts', importer)]).map(
        (line) => /imports (\w+)/.exec(line)?.[1] ?? line,
      )
    expect(unused('')).toEqual(['a', 'b', 'C', 'd', 'e', 'f', 'default'])
    expect(unused(`import g, { a, type C as Other } from '../../src/core/a.ts'`)).toEqual(['b', 'd', 'e', 'f'])
    expect(unused(`import * as all from '../../src/core/a.ts'`)).toEqual([])
    expect(unused(`const { a, b: c } = await import('../../src/core/a.ts')`)).toEqual(['C', 'd', 'e', 'f', 'default'])
    expect(unused(`(await import('../../src/core/a.ts')).d()`)).toEqual(['a', 'b', 'C', 'e', 'f', 'default'])
    expect(unused(`type T = import('../../src/core/a.ts').C`)).toEqual(['a', 'b', 'd', 'e', 'f', 'default'])
    expect(unused(`export { a } from '../../src/core/a.ts'`)).toEqual(['b', 'C', 'd', 'e', 'f', 'default'])
    expect(unused(`const module = await import('../../src/core/a.ts')`)).toEqual([])
    expect(unused(`import { a } from '../../src/core/b.ts'`)).toHaveLength(7)
  })

  test('find words against plain language, long lines, unknown documents and repeated names', () => {
    const complaints = (text: string, path = 'a.ts') => languageProblems(path, text).length
    expect(complaints('// The caller is told where it stands, and so it says.')).toBe(3)
    expect(complaints('// The answer reports the position of the field.')).toBe(0)
    expect(complaints('const requestsTold = tellStatus()')).toBe(2)
    expect(complaints('const { intelligence, Tellurium } = unfoldTold1')).toBe(1)
    expect(complaints(`// ${'word '.repeat(30)}`)).toBe(1)
    expect(complaints(`// ${'x'.repeat(150)}`)).toBe(1)
    expect(complaints(`"${'x'.repeat(150)}"`)).toBe(0)
    expect(complaints(`| ${'word '.repeat(30)} |`, 'a.md')).toBe(0)
    expect(
      unknownDocuments('a.ts', 'See README.md and docs/keys.md, not wire.md.', new Set(['README.md', 'keys.md'])),
    ).toHaveLength(1)
    expect(repeatedNames(['src/a/request.ts', 'src/b/request.ts', 'src/a/keys.ts', 'src/b/keys.ts'])).toHaveLength(1)
  })

  test('find vague names and forbidden words', () => {
    expect(
      vagueNames(['src/core/utils.ts', 'src/helpers/a.ts', 'src/key-manager.ts', 'src/core/event.ts']),
    ).toHaveLength(2)
    expect(vagueNames(['src/core/StreamEvent.ts'])).toHaveLength(1)
    const slash = '/'
    expect(forbiddenWords('a.md', `see ${slash}work${slash}x and Issue${' #'}12, TO${''}DO`)).toHaveLength(3)
    expect(forbiddenWords('a.md', 'network/work/x is fine, and so is an issue, and todo lists')).toEqual([])
    expect(unexplainedPackages(['pino', 'elysia'], 'we use `pino`')).toHaveLength(1)
  })
})
