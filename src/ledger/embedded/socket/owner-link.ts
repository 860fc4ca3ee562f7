/** One connection of a worker to the owner of the ledger. */

import type { Socket } from 'bun'
import type { Account } from '../../ledger.ts'
import { FrameError, FrameReader } from './frame-reader.ts'
import { FrameWriter } from './frame-writer.ts'
import { ACCOUNTS_MAX, CallWriter, type FromOwner, PROTOCOL, readAnswer } from './owner-messages.ts'

interface LinkEvents {
  readonly messages: Omit<FromOwner, 'takesRemotes'>
  /** `problem`: the owner has sent what no owner of this version sends. */
  readonly closed: (problem: FrameError | undefined) => void
}

export class OwnerLink {
  /** What is written by `calls` is sent by `frames`. */
  readonly frames: FrameWriter
  readonly calls: CallWriter
  private readonly reader = new FrameReader()
  private readonly messages: FromOwner
  /** The accounts by the numbers that the owner knows them by, and the last number of each. */
  private readonly accounts: Account[] = []
  private readonly numbers = new WeakMap<Account, number>()
  private nextNumber = 0
  private problem: FrameError | undefined

  private constructor(
    private readonly socket: Socket<undefined>,
    worker: string,
    events: LinkEvents,
  ) {
    this.frames = new FrameWriter(socket)
    this.calls = new CallWriter(this.frames)
    this.messages = {
      ...events.messages,
      takesRemotes: () => {
        this.calls.writesRemotes = true
      },
    }
    this.calls.hello(PROTOCOL, worker)
    this.frames.soon()
  }

  /** Rejects if no owner listens at `path`. */
  static async connect(path: string, worker: string, events: LinkEvents): Promise<OwnerLink> {
    let link: OwnerLink | undefined
    let isClosed = false
    const socket = await Bun.connect<undefined>({
      unix: path,
      socket: {
        data: (_socket, bytes) => link?.receive(bytes),
        drain: () => link?.frames.drain(),
        close: () => {
          isClosed = true
          if (link !== undefined) events.closed(link.problem)
        },
        // The owner is gone; `close` follows.
        error: () => {},
      },
    })
    if (isClosed) throw new Error('The owner of the ledger has closed the connection.')
    link = new OwnerLink(socket, worker, events)
    return link
  }

  close(): void {
    this.frames.flush()
    this.socket.end()
  }

  /** The number of an account, which the owner gets now unless it knows it: no message may have begun. */
  numberOf(account: Account): number {
    const known = this.numbers.get(account)
    if (known !== undefined && this.accounts[known] === account) return known
    const number = this.nextNumber
    this.nextNumber = (number + 1) % ACCOUNTS_MAX
    this.accounts[number] = account
    this.numbers.set(account, number)
    this.calls.account(number, account)
    return number
  }

  private receive(bytes: Buffer): void {
    if (this.problem !== undefined) return
    try {
      this.reader.read(bytes, this.take)
    } catch (error) {
      if (!(error instanceof FrameError)) throw error
      this.problem = error
      this.socket.end()
    }
  }

  private readonly take = (type: number) => readAnswer(type, this.reader, this.messages)
}
