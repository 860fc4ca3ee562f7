/**
 * Makes and changes elements. What comes from the API becomes text or the value of an attribute and is never parsed as
 * HTML, because callers choose some of it.
 */

type Child = Node | string

/** An element with attributes and children; strings become text. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
  made.append(...children)
  return made
}

/** The element of the page with this id. Throws if the page has none. */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no element "${id}"`)
  return found
}

/** Changes the text only if it differs: a change makes the browser lay out the line again. */
export function setText(target: Element, text: string): void {
  const { firstChild } = target
  if (firstChild instanceof Text && firstChild.nextSibling === null) {
    if (firstChild.data !== text) firstChild.data = text
  } else if (firstChild !== null || text !== '') {
    target.textContent = text
  }
}

/** At most this many characters of the end of a long text stay in sight. */
const END_CHARS = 10
const characters = new Intl.Segmenter('en', { granularity: 'grapheme' })

/**
 * Sets a text whose middle is cut if it does not fit: names of models and organisations often differ in their last
 * characters alone. The whole text stays in the page.
 */
export function setCutText(target: Element, text: string): void {
  if (target.textContent === text) return
  const parts = text.length <= 2 * END_CHARS ? [text] : Array.from(characters.segment(text), ({ segment }) => segment)
  const end = parts.length <= 2 * END_CHARS ? '' : parts.splice(-END_CHARS).join('')
  target.classList.toggle('cut', end !== '')
  if (end === '') target.replaceChildren(text)
  else target.replaceChildren(element('span', { class: 'start' }, parts.join('')), element('span', {}, end))
}

/** Sets an attribute, or removes it with `undefined`, if it differs. */
export function setAttribute(target: Element, name: string, value: string | undefined): void {
  if (value === undefined) target.removeAttribute(name)
  else if (target.getAttribute(name) !== value) target.setAttribute(name, value)
}

/** How things are: each state has a colour and an icon. */
export type State = 'good' | 'warning' | 'bad' | 'probing' | 'neutral'

const SVG = 'http://www.w3.org/2000/svg'

/** An icon with a word: `.word` holds the text, so that the state does not depend on colour or shape. */
export class StateMark {
  readonly node = element('span', { class: 'state' })
  private readonly use = document.createElementNS(SVG, 'use')
  private readonly word = element('span', { class: 'word' })

  constructor(classes = 'state') {
    this.node.className = classes
    const icon = document.createElementNS(SVG, 'svg')
    icon.setAttribute('class', 'icon')
    icon.setAttribute('aria-hidden', 'true')
    icon.append(this.use)
    this.node.append(icon, this.word)
  }

  /** Without a state there is the word alone. */
  show(state: State | undefined, word: string, title?: string): void {
    this.node.classList.toggle('plain', state === undefined)
    setAttribute(this.node, 'data-state', state === 'probing' ? 'warning' : (state ?? 'neutral'))
    setAttribute(this.use, 'href', `#icon-${state ?? 'neutral'}`)
    setAttribute(this.node, 'title', title)
    setText(this.word, word)
  }
}
