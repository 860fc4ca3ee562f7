/** One connection of a worker to the owner of the ledger. */

import type { Socket } from 'bun'
import type { Account } from '../../ledger.ts'
import { FrameReader, FrameWriter } from './message-frames.ts'
import { type FromOwner, PROTOCOL, type ToOwner } from './owner-messages.ts'

interface LinkEvents {
  readonly message: (message: FromOwner) => void
  readonly closed: () => void
}

export class OwnerLink {
  private readonly reader = new FrameReader<FromOwner>()
  private readonly writer: FrameWriter<ToOwner>
  /** By their indexes: the accounts that the owner knows. */
  private readonly known: (Account | undefined)[] = []

  private constructor(
    private readonly socket: Socket<undefined>,
    worker: string,
  ) {
    this.writer = new FrameWriter(socket)
    this.writer.add({ type: 'hello', protocol: PROTOCOL, worker })
  }

  /** Rejects if no owner listens at `path`. */
  static async connect(path: string, worker: string, events: LinkEvents): Promise<OwnerLink> {
    let link: OwnerLink | undefined
    let isClosed = false
    const socket = await Bun.connect<undefined>({
      unix: path,
      socket: {
        data: (_socket, bytes) => {
          for (const message of link?.reader.read(bytes) ?? []) events.message(message)
        },
        drain: () => link?.writer.drain(),
        close: () => {
          isClosed = true
          if (link !== undefined) events.closed()
        },
        // The owner is gone; `close` follows.
        error: () => {},
      },
    })
    if (isClosed) throw new Error('The owner of the ledger has closed the connection.')
    link = new OwnerLink(socket, worker)
    return link
  }

  /**
   * `account` is what the index in the message stands for. `isUrgent`: a request waits for the answer; others are sent
   * with the next message that is.
   */
  send(message: ToOwner, index: number, account: Account | undefined, isUrgent: boolean): void {
    if (account !== undefined && this.known[index] !== account) {
      this.known[index] = account
      this.writer.add({ type: 'account', index, account })
    }
    if (isUrgent) this.writer.add(message)
    else this.writer.addLater(message)
  }

  close(): void {
    this.writer.flush()
    this.socket.end()
  }
}
