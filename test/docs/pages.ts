/** The documents of the repository: their blocks of code, their links and the anchors of their headings. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = join(import.meta.dir, '../..')

/** A fenced block of code. */
export interface Block {
  /** `docs/keys.md:12`, the line of its first fence. */
  readonly at: string
  /** The words after the first fence: `sh runnable`. */
  readonly info: string
  readonly text: string
}

export interface Page {
  /** From the root of the repository. */
  readonly path: string
  readonly text: string
  /** The text without blocks of code. */
  readonly prose: string
  readonly blocks: readonly Block[]
  /** As GitHub makes them of headings. */
  readonly anchors: ReadonlySet<string>
}

/** README and the other pages at the top, then `docs/` by name. */
export const PAGES: readonly Page[] = [
  ...['README.md', 'CHANGELOG.md', 'SECURITY.md', 'CONTRIBUTING.md'],
  ...[...new Bun.Glob('docs/**/*.md').scanSync({ cwd: ROOT })].sort(),
].map((path) => readPage(path, readFileSync(join(ROOT, path), 'utf8')))

export function pageOf(path: string): Page {
  const page = PAGES.find((each) => each.path === path)
  if (page === undefined) throw new Error(`there is no page ${path}`)
  return page
}

/** Throws if a block is not closed. */
export function readPage(path: string, text: string): Page {
  const blocks: Block[] = []
  const prose: string[] = []
  let open:
    | { readonly line: number; readonly indent: string; readonly info: string; readonly lines: string[] }
    | undefined
  text.split('\n').forEach((line, index) => {
    const [, indent = '', info] = /^(\s*)```(.*)$/.exec(line) ?? []
    // As in Markdown, a block in a list starts where its fence does.
    if (info === undefined)
      (open?.lines ?? prose).push(line.startsWith(open?.indent ?? '') ? line.slice(open?.indent.length) : line)
    else if (open === undefined) open = { line: index + 1, indent, info: info.trim(), lines: [] }
    else {
      blocks.push({ at: `${path}:${open.line}`, info: open.info, text: `${open.lines.join('\n')}\n` })
      open = undefined
    }
  })
  if (open !== undefined) throw new Error(`${path}:${open.line}: the block of code is not closed`)
  return { path, text, prose: prose.join('\n'), blocks, anchors: anchorsOf(prose) }
}

function anchorsOf(lines: readonly string[]): ReadonlySet<string> {
  const anchors = new Set<string>()
  for (const line of lines) {
    const heading = /^#{1,6} (.*)$/.exec(line)?.[1]
    if (heading === undefined) continue
    const base = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-')
    let anchor = base
    for (let repeated = 1; anchors.has(anchor); repeated++) anchor = `${base}-${repeated}`
    anchors.add(anchor)
  }
  return anchors
}

/** The targets of the links in prose, without those inside code. */
export function linksOf({ prose }: Page): readonly string[] {
  const words = prose.replaceAll(/`[^`\n]*`/g, '``')
  return [...words.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
}
