/**
 * Parses a TypeScript file into what the rules of the repository check: imports, exports, functions, uses of the
 * runtime.
 */

import { readFileSync } from 'node:fs'
import { type EcmaScriptModule, type Expression, parseSync, Visitor } from 'oxc-parser'

/** A finding at a line of a file; lines count from 1. */
export interface Place<T> {
  readonly line: number
  readonly what: T
}

export interface Source {
  /** The path from the repository's root, with `/`. */
  readonly path: string
  readonly text: string
  readonly opensWithComment: boolean
  /** Module specifiers: imports, re-exports, `import()`, `import('…')` types, `new URL('./x.ts', import.meta.url)`. */
  readonly imports: readonly Place<string>[]
  /** The names that those imports use. */
  readonly importedNames: readonly ImportedName[]
  /** Without those of `export * from`. */
  readonly exports: readonly Place<string>[]
  /** The lengths of all functions in lines; `what.name` is the best known name. */
  readonly functions: readonly Place<{ readonly name: string; readonly lines: number }>[]
  /** Uses of the runtime that only some files may make. */
  readonly uses: readonly Place<Use>[]
}

export interface ImportedName {
  /** The module specifier. */
  readonly from: string
  /** `*` if the whole module is used, so that every export counts as used. */
  readonly name: string
}

export type Use = 'environment' | 'fetch' | 'response' | 'import of what is not a literal'

export function readSource(root: string, path: string): Source {
  return parseSource(path, readFileSync(`${root}/${path}`, 'utf8'))
}

export function parseSource(path: string, text: string): Source {
  const parsed = parseSync(path, text)
  const problem = parsed.errors[0]
  if (problem !== undefined) throw new Error(`${path}: ${problem.message}`)
  const lineAt = lineFinder(text)
  const imports: Place<string>[] = []
  const functions: Place<{ name: string; lines: number }>[] = []
  const uses: Place<Use>[] = []
  const imported = (at: number, specifier: string) => imports.push({ line: lineAt(at), what: specifier })
  const used = (at: number, use: Use) => uses.push({ line: lineAt(at), what: use })
  const measured = (node: Span, name: string) =>
    functions.push({ line: lineAt(node.start), what: { name, lines: lineAt(node.end) - lineAt(node.start) + 1 } })

  for (const it of parsed.module.staticImports) imported(it.start, it.moduleRequest.value)
  for (const it of parsed.module.staticExports) {
    const from = it.entries.find((entry) => entry.moduleRequest !== null)?.moduleRequest
    if (from !== null && from !== undefined) imported(it.start, from.value)
  }
  const importedNames = staticNames(parsed.module)
  const exported = parsed.module.staticExports
    .flatMap(({ entries }) => entries)
    .filter(({ exportName }) => exportName.kind !== 'None')
    .map(({ start, exportName }) => ({ line: lineAt(start), what: exportName.name ?? 'default' }))
  new Visitor({
    ImportExpression(node) {
      if (isText(node.source)) {
        imported(node.start, node.source.value)
        for (const name of dynamicNames(text, node)) importedNames.push({ from: node.source.value, name })
      } else used(node.start, 'import of what is not a literal')
    },
    TSImportType(node) {
      imported(node.start, node.source.value)
      const name = node.qualifier === null ? '*' : text.slice(node.qualifier.start, node.qualifier.end)
      importedNames.push({ from: node.source.value, name })
    },
    CallExpression(node) {
      const name = calleeName(node.callee)
      if (name === 'fetch') used(node.start, 'fetch')
      if (/^Response\.(?:json|redirect|error)$/.test(name)) used(node.start, 'response')
    },
    NewExpression(node) {
      const name = calleeName(node.callee)
      if (name === 'Response') used(node.start, 'response')
      const [first, second] = node.arguments
      const relative = name === 'URL' && first !== undefined && isText(first) && first.value.startsWith('.')
      if (relative && second !== undefined && text.slice(second.start, second.end) === 'import.meta.url')
        imported(node.start, first.value)
    },
    MemberExpression(node) {
      const property = node.computed ? undefined : text.slice(node.property.start, node.property.end)
      const object = text.slice(node.object.start, node.object.end)
      if (property === 'env' && /^(?:globalThis\.)?(?:process|Bun|import\.meta)$/.test(object))
        used(node.start, 'environment')
    },
    FunctionDeclaration: (node) => measured(node, node.id?.name ?? 'default'),
    FunctionExpression: (node) => measured(node, node.id?.name ?? nameBefore(text, node.start)),
    ArrowFunctionExpression: (node) => measured(node, nameBefore(text, node.start)),
  }).visit(parsed.program)

  const first = parsed.comments[0]
  const opening = text.startsWith('#!') ? text.indexOf('\n') + 1 : 0
  const opensWithComment = first !== undefined && first.start === opening
  return { path, text, opensWithComment, imports, importedNames, exports: exported, functions, uses }
}

/** The names of `import` and `export … from` statements. */
function staticNames({ staticImports, staticExports }: EcmaScriptModule): ImportedName[] {
  const names: ImportedName[] = []
  for (const { moduleRequest, entries } of staticImports)
    for (const { importName } of entries)
      names.push({
        from: moduleRequest.value,
        name: importName.name ?? (importName.kind === 'Default' ? 'default' : '*'),
      })
  for (const { entries } of staticExports)
    for (const { moduleRequest, importName } of entries)
      if (moduleRequest !== null) names.push({ from: moduleRequest.value, name: importName.name ?? '*' })
  return names
}

/** `const { a, b: c } = await import(…)` and `(await import(…)).a`; any other form uses the whole module. */
function dynamicNames(text: string, { start, end }: Span): readonly string[] {
  const member = /^\)\.(\w+)/.exec(text.slice(end, end + 100))?.[1]
  if (member !== undefined) return [member]
  const pattern = /\{([^{}]*)\}\s*=\s*await\s*$/.exec(text.slice(Math.max(0, start - 500), start))?.[1]
  return pattern === undefined ? ['*'] : pattern.split(',').map((name) => name.split(':')[0]?.trim() ?? '')
}

interface Span {
  readonly start: number
  readonly end: number
}

/** The name of an anonymous function: the variable or method it is assigned to. */
function nameBefore(text: string, at: number): string {
  const before = text.slice(Math.max(0, at - 80), at)
  return (
    /([\w#$]+)\s*(?::[^=]*)?=\s*(?:async\s*)?$/.exec(before)?.[1] ?? /([\w#$]+)\s*$/.exec(before)?.[1] ?? 'anonymous'
  )
}

/**
 * `fetch`, `globalThis.fetch` and `Bun.fetch` are all `fetch`; `Response.json` stays; any other callee is its text or
 * ''.
 */
function calleeName(callee: Expression): string {
  if (callee.type === 'Identifier') return callee.name
  if (callee.type !== 'MemberExpression' || callee.computed) return ''
  const { object, property } = callee
  if (object.type !== 'Identifier' || property.type !== 'Identifier') return ''
  return ['globalThis', 'Bun', 'window', 'self'].includes(object.name)
    ? property.name
    : `${object.name}.${property.name}`
}

function isText<T extends { readonly type: string }>(
  node: T,
): node is T & { readonly type: 'Literal'; readonly value: string } {
  return node.type === 'Literal' && 'value' in node && typeof node.value === 'string'
}

function lineFinder(text: string): (at: number) => number {
  const starts = [0]
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  return (at) => {
    let low = 0
    let high = starts.length
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if ((starts[middle] ?? 0) <= at) low = middle
      else high = middle
    }
    return low + 1
  }
}
