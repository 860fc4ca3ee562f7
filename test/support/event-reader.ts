/** Reads server-sent events: those of the admin API one by one, and the data of a whole answer. */

export interface ReadEvent {
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

export class EventReader implements AsyncDisposable {
  private readonly chunks: AsyncIterator<Uint8Array>
  private readonly decoder = new TextDecoder()
  private text = ''

  constructor(answer: Response) {
    if (answer.status !== 200 || answer.body === null) throw new Error(`The answer is ${answer.status}.`)
    this.chunks = answer.body[Symbol.asyncIterator]()
  }

  /** The next event with this name for which a condition holds; others are skipped. Throws at the end of the stream. */
  async next(name: string, holds: (data: ReadEvent['data']) => boolean = () => true): Promise<ReadEvent['data']> {
    for (;;) {
      const { event, data } = await this.read()
      if (event === name && holds(data)) return data
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.chunks.return?.()
  }

  private async read(): Promise<ReadEvent> {
    for (;;) {
      const end = this.text.indexOf('\n\n')
      if (end !== -1) {
        const lines = this.text.slice(0, end).split('\n')
        this.text = this.text.slice(end + 2)
        const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? ''
        return { event: field('event'), data: JSON.parse(field('data')) }
      }
      const { done, value } = await this.chunks.next()
      if (done === true) throw new Error('The stream has ended.')
      this.text += this.decoder.decode(value, { stream: true })
    }
  }
}

/** The data of all events of an answer, parsed. */
export function eventsOf(text: string) {
  return text.split('\n\n').flatMap((event) => {
    const data = /^data: (.*)$/m.exec(event)?.[1]
    return data === undefined ? [] : [JSON.parse(data)]
  })
}
