/** The band "Attention": what somebody should look at; one quiet line if there is nothing. */

import type { Attention } from '../admin/api-shapes.ts'
import { ago } from '../core/figure-text.ts'
import { element, StateMark, setText } from './elements.ts'
import type { ServerClock } from './units.ts'

/** More are counted, not shown. */
const SHOWN_MAX = 20

export class AttentionBand {
  private readonly allWell = new StateMark('all-well')
  private readonly count = element('p', { class: 'count' })
  private readonly list = element('ul', { class: 'panel' })
  /** Read out when the list changes, not when the time in it does. */
  private readonly spoken = element('p', { class: 'unseen', role: 'status' })
  private shown = ''

  constructor(
    private readonly section: HTMLElement,
    private readonly clock: ServerClock,
    /** Shows the rows that a message is about. */
    private readonly find: (about: NonNullable<Attention['about']>) => void,
  ) {
    const title = element('h2', { id: `${section.id}-title` }, 'Attention')
    section.append(element('div', { class: 'band-head' }, title, this.allWell.node, this.count), this.list, this.spoken)
    this.list.hidden = true
  }

  /** `items`: errors first. `isTried`: something has answered. Before that nothing shows that all is well. */
  show(items: readonly Attention[], isTried: boolean): void {
    this.allWell.show(isTried ? 'good' : 'neutral', 'Nothing needs attention')
    const key = JSON.stringify(items.map(({ level, message }) => [level, message]))
    if (key !== this.shown) {
      this.shown = key
      this.draw(items)
    }
    items.slice(0, SHOWN_MAX).forEach(({ since }, at) => {
      const text = this.list.children[at]?.querySelector('.since')
      if (since !== null && text) setText(text, ago(-this.clock.secondsUntil(since)))
    })
  }

  private draw(items: readonly Attention[]): void {
    const errors = items.filter(({ level }) => level === 'error').length
    const words = summary(errors, items.length - errors)
    this.section.classList.toggle('has-items', items.length > 0)
    this.allWell.node.hidden = items.length > 0
    this.list.hidden = items.length === 0
    this.list.replaceChildren(...items.slice(0, SHOWN_MAX).map((item) => this.itemOf(item)))
    const hidden = items.length - SHOWN_MAX
    if (hidden > 0) this.list.append(element('li', { class: 'alarm' }, `and ${hidden} more`))
    setText(this.count, items.length > 0 ? words : '')
    setText(this.spoken, words)
  }

  private itemOf({ level, message, about }: Attention): HTMLLIElement {
    const mark = new StateMark('level')
    mark.show(level === 'error' ? 'bad' : 'warning', level === 'error' ? 'Error' : 'Warning')
    const text =
      about === null
        ? element('span', { class: 'message', dir: 'auto' }, message)
        : element('button', { class: 'message to-row', dir: 'auto', type: 'button' }, message)
    if (about !== null) text.addEventListener('click', () => this.find(about))
    return element('li', { class: 'alarm' }, mark.node, text, element('span', { class: 'since' }))
  }
}

function summary(errors: number, warnings: number): string {
  const parts = [
    [errors, 'error'],
    [warnings, 'warning'],
  ] as const
  const words = parts.flatMap(([count, word]) => (count === 0 ? [] : [`${count} ${word}${count === 1 ? '' : 's'}`]))
  return words.length === 0 ? 'Nothing needs attention' : words.join(', ')
}
