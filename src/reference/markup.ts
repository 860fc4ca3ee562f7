/** Markup: HTML text in which everything but markup is escaped, and the Markdown of descriptions. */

/** Text that is HTML already. */
export class Markup {
  constructor(readonly text: string) {}
}

/** What may stand in a template. A list is written without anything in between; `undefined` and false are nothing. */
type Part = Markup | string | number | false | undefined | readonly Part[]

/** A template whose values are escaped, unless they are markup. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  return new Markup(strings.map((text, at) => text + textOf(parts[at])).join(''))
}

function textOf(part: Part): string {
  if (part === undefined || part === false) return ''
  if (part instanceof Markup) return part.text
  if (typeof part === 'object') return part.map(textOf).join('')
  return escaped(String(part))
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => ENTITIES[character] ?? character)
}

/** Parts with a separator in between. */
export function separated(separator: Markup, parts: readonly Markup[]): readonly Markup[] {
  return parts.flatMap((part, at) => (at === 0 ? [part] : [separator, part]))
}

/** Paragraphs and lists. */
export function blocks(markdown: string): readonly Markup[] {
  return markdown.split(/\n{2,}/).map((block) => {
    const lines = block.split('\n')
    return lines.every((line) => line.startsWith('- '))
      ? html`<ul>${lines.map((line) => html`<li>${inline(line.slice(2))}</li>`)}</ul>`
      : html`<p>${inline(block)}</p>`
  })
}

/** Code, bold text and links within the page. */
export function inline(markdown: string): readonly Markup[] {
  return markdown.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\(#[^)]+\))/).map((piece) => {
    if (piece.startsWith('`')) return html`<code>${piece.slice(1, -1)}</code>`
    if (piece.startsWith('**')) return html`<strong>${piece.slice(2, -2)}</strong>`
    const link = /^\[([^\]]+)\]\((#[^)]+)\)$/.exec(piece)
    return link === null ? html`${piece}` : html`<a href="${link[2] ?? ''}">${link[1] ?? ''}</a>`
  })
}
