/** YAML text → plain data, with references replaced. JSON is YAML, and is read far quicker. */

import { isAlias, isMap, isNode, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument } from 'yaml'
import { isArray, isObject, type JsonValue } from '../core/json.ts'
import { References, type Sources } from './config-references.ts'
import { type Path, Problems, pathText } from './problems.ts'
import { explained } from './yaml-errors.ts'

export interface Read {
  readonly value: JsonValue
  /** By path text: the strings in which a reference was replaced, as they were written. */
  readonly written: ReadonlyMap<string, string>
  /** Path texts of values that are one unquoted reference and nothing else. These may become numbers and booleans. */
  readonly bare: ReadonlySet<string>
  /** By path text: the line of the key, or of the entry of a list. */
  readonly lines: () => ReadonlyMap<string, number>
}

/** Deeper than any configuration, and far below the depth at which recursion overflows the stack. */
const DEPTH_MAX = 32
/** Anchors that repeat each other expand without bound; a file of 10,000 organizations has a third of it. */
const NODES_MAX = 1_000_000

/**
 * Returns undefined if the text is not YAML; only its first error is added, because the others usually follow from
 * it. Problems of single values do not prevent reading the rest.
 */
export function readDocument(text: string, sources: Sources, problems: Problems): Read | undefined {
  return readJson(text, sources) ?? readYaml(text, sources, problems)
}

function readYaml(text: string, sources: Sources, problems: Problems): Read | undefined {
  const lines = new LineCounter()
  const document = parseDocument(text, { uniqueKeys: false, prettyErrors: false, lineCounter: lines })
  const error = document.errors[0] ?? document.warnings[0]
  if (error !== undefined) {
    const { line, col } = lines.linePos(error.pos[0])
    problems.add(`column ${col}`, explained(error, text, line), { line })
    return undefined
  }
  return new Reader(sources, problems, lines).read(document.contents)
}

/** With 10,000 organizations, `yaml` takes 7 s for what `JSON.parse` reads in 20 ms. Undefined: not plain JSON. */
function readJson(text: string, sources: Sources): Read | undefined {
  if (!text.startsWith('{')) return undefined
  let parsed: JsonValue
  try {
    parsed = JSON.parse(text)
  } catch {
    return undefined
  }
  let keys = 0
  for (const [, colon] of text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?/g)) if (colon !== undefined) keys++
  const own = new Problems()
  const references = new References(sources, own)
  const plain = (value: JsonValue, path: Path): JsonValue => {
    if (path.length > DEPTH_MAX) keys = Infinity
    if (!Number.isFinite(keys)) return null
    if (isArray(value)) return value.map((item, i) => plain(item, [...path, i]))
    if (!isObject(value)) return references.scalar(value, false, path)
    const entries = Object.entries(value)
    keys -= entries.length
    return Object.fromEntries(entries.map(([name, inside]) => [name, plain(inside ?? null, [...path, name])]))
  }
  const value = plain(parsed, [])
  // Of keys that repeat one is left. The reader of YAML reports them.
  if (keys !== 0 || !own.isEmpty) return undefined
  let lines: ReadonlyMap<string, number> | undefined
  return {
    ...{ value, written: references.written, bare: references.bare },
    lines: () => {
      lines ??= linesOf(text)
      return lines
    },
  }
}

/** The lines of keys and entries in a text that is JSON. */
function linesOf(text: string): ReadonlyMap<string, number> {
  const lines = new Map<string, number>()
  // All are in the first, which is that of a path without a line.
  if (!text.trimEnd().includes('\n')) return lines
  /** The place in each group and list that is open: the key, undefined before it, or the index of the entry. */
  const path: (string | number | undefined)[] = []
  const mark = () => lines.set(pathText(path.map((part) => part ?? '')), line)
  let line = 1
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],\n]|[^\s"{}[\],:]+/g)) {
    const at = path.at(-1)
    if (token === '\n') line++
    else if (token === '}' || token === ']') path.pop()
    else if (token === ',') path[path.length - 1] = typeof at === 'number' ? at + 1 : undefined
    else if (path.length > 0 && at === undefined) {
      path[path.length - 1] = String(JSON.parse(token))
      mark()
    } else {
      if (typeof at === 'number') mark()
      if (token === '{') path.push(undefined)
      if (token === '[') path.push(0)
    }
  }
  return lines
}

class Reader {
  private readonly references: References
  private readonly lines = new Map<string, number>()
  private readonly anchors = new Map<string, Node>()
  /** How many aliases lead to the value that is read. */
  private aliases = 0
  private nodes = 0

  constructor(
    sources: Sources,
    private readonly problems: Problems,
    private readonly counter: LineCounter,
  ) {
    this.references = new References(sources, problems)
  }

  read(contents: Node | null): Read {
    const value = this.value(contents, [])
    return { value, written: this.references.written, bare: this.references.bare, lines: () => this.lines }
  }

  /** The first line wins: a key that occurs twice is found at its first place. */
  private mark(node: Node | null, path: Path): void {
    const line = node === null ? undefined : this.lineOf(node)
    const text = pathText(path)
    if (line !== undefined && !this.lines.has(text)) this.lines.set(text, line)
  }

  private value(node: unknown, path: Path): JsonValue {
    this.nodes++
    if (this.nodes > NODES_MAX || path.length > DEPTH_MAX) {
      this.problems.add([], 'has more values or levels than a configuration can have (does an anchor repeat itself?)')
      return null
    }
    if (isAlias(node)) return this.anchored(this.anchors.get(node.source), path)
    // A value of an alias is read again, and its own anchors may have other values since.
    if (isAnchored(node) && this.aliases === 0) this.anchors.set(node.anchor, node)
    if (isSeq<Node>(node)) return node.items.map((item, index) => this.entry(item, [...path, index]))
    if (isMap<Node, Node>(node)) return this.object(node.items, path)
    return isScalar(node) ? this.references.scalar(node.value, node.type === 'PLAIN', path) : null
  }

  private entry(node: Node, path: Path): JsonValue {
    this.mark(node, path)
    return this.value(node, path)
  }

  private anchored(node: Node | undefined, path: Path): JsonValue {
    if (node !== undefined) {
      this.aliases++
      const value = this.value(node, path)
      this.aliases--
      return value
    }
    this.problems.add(path, 'refers to an anchor (*) that is not defined before it; quote a string that begins with *')
    return null
  }

  private object(pairs: readonly Pair<Node, Node | null>[], path: Path): JsonValue {
    const entries = new Map<string, JsonValue>()
    for (const { key, value } of pairs) {
      if (!isScalar(key)) {
        this.problems.add(path, 'has a key that is not a plain word')
        continue
      }
      const name = String(key.value)
      const inside = [...path, name]
      if (name === '<<') {
        const line = this.lineOf(key)
        this.problems.add(inside, 'merge keys are not supported; write the keys of the group out', { line })
        continue
      }
      if (entries.has(name)) {
        const first = this.lines.get(pathText(inside))
        this.problems.add(inside, `duplicate key, also on line ${first}; keep one`, { line: this.lineOf(key) })
      }
      this.mark(key, inside)
      entries.set(name, this.value(value, inside))
    }
    return Object.fromEntries(entries)
  }

  private lineOf(node: Node): number | undefined {
    return node.range ? this.counter.linePos(node.range[0]).line : undefined
  }
}

function isAnchored(node: unknown): node is Node & { readonly anchor: string } {
  return isNode(node) && 'anchor' in node && node.anchor !== undefined
}
