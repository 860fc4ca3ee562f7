/**
 * Memory for request bodies, counted for each organization and for the worker before the bytes are read. A body may
 * have 10 MiB: without a limit, 150 slow uploads with one key hold 1.5 GiB for a minute.
 */

import { CallerError } from '../core/caller-error.ts'

interface BodyLimits {
  /** Bytes of bodies, as sent, that the running requests of one organization may have in this worker. */
  readonly organizationBytes: number
  /** Bytes of memory that all bodies in this worker may take. */
  readonly workerBytes: number
}

/**
 * What a body may take until a provider has received it. Measured with ten bodies of 10 MiB at once, RSS for each byte:
 * a conversation 1.0 if it has long texts and 4.1 if it has nothing but tiny values; embeddings, which are parsed, 2.6,
 * and 4.0 if one character needs 16 bits, which doubles the text.
 */
const COPIES = 4
/**
 * Large bodies leave an eighth of the memory to bodies up to this size, so that image uploads do not lock out others.
 */
const SMALL_BYTES = 64 * 1024
const SHARE_FOR_SMALL = 1 / 8
const RETRY_SECONDS = 1

export class BodyMemory {
  private readonly organizations = new Map<string, number>()
  /** Bytes of memory that are counted at the moment. */
  heldBytes = 0

  constructor(
    private readonly limits: BodyLimits,
    /** Turns away a request that waits, for one that should come first. False if there is none. */
    private readonly shed: () => boolean = () => false,
  ) {}

  /** The share of one request. It counts nothing yet. `isLow`: no other request makes room for it. */
  share(organization: string, isLow = false): BodyShare {
    return new BodyShare(this, organization, isLow)
  }

  /** Throws `CallerError` if the body, which has `held` bytes already, may not grow by `bytes`. */
  take(organization: string, held: number, bytes: number, isLow: boolean): void {
    const { organizationBytes, workerBytes } = this.limits
    const others = () => this.organizations.get(organization) ?? 0
    if (others() + bytes > organizationBytes) {
      const message =
        `The request bodies that organisation '${organization}' has in flight would exceed ${organizationBytes} ` +
        'bytes. Send this request again after another one has ended.'
      throw new CallerError('rate_limited', message, { type: 'concurrent_requests', retryAfterSeconds: RETRY_SECONDS })
    }
    const isSmall = held + bytes <= SMALL_BYTES
    const limit = isSmall ? workerBytes : workerBytes * (1 - SHARE_FOR_SMALL)
    while (this.heldBytes + COPIES * bytes > limit) {
      if (!isLow && this.shed()) continue
      const message = 'The gateway has no memory left for another request body of this size; try again.'
      throw new CallerError('overloaded', message, { retryAfterSeconds: RETRY_SECONDS })
    }
    this.organizations.set(organization, others() + bytes)
    this.heldBytes += COPIES * bytes
  }

  /** Returns memory: `copies` of `bytes`. The last copy is the one that the organization is counted for. */
  give(organization: string, bytes: number, copies: number, isLast: boolean): void {
    this.heldBytes -= copies * bytes
    if (!isLast) return
    const left = (this.organizations.get(organization) ?? 0) - bytes
    if (left > 0) this.organizations.set(organization, left)
    else this.organizations.delete(organization)
  }
}

/**
 * A body may have 10 MiB, or 250,000 values in half a megabyte: each step of such a request takes up to 50 ms, and all
 * of them together would hold the event loop for 200.
 */
const HEAVY_BYTES = 256 * 1024

export class BodyShare {
  private bytes = 0
  private copies = COPIES

  constructor(
    private readonly memory: BodyMemory,
    private readonly organization: string,
    private readonly isLow: boolean,
  ) {}

  /** So large that each step of the request should have a turn of the event loop of its own. */
  get isHeavy(): boolean {
    return this.bytes >= HEAVY_BYTES
  }

  /**
   * Before `bytes` of the body are read. Throws `CallerError` if there is no memory for them, or the request has ended.
   */
  take(bytes: number): void {
    if (this.copies < COPIES) throw new CallerError('malformed_body', 'The request ended before its body had arrived.')
    this.memory.take(this.organization, this.bytes, bytes, this.isLow)
    this.bytes += bytes
  }

  /**
   * A provider has received the request. Its parsed form stays: another provider may be called, and answers quote it.
   */
  sent(): void {
    this.keep(1)
  }

  /** The request has ended. */
  release(): void {
    this.keep(0)
  }

  private keep(copies: number): void {
    if (copies >= this.copies) return
    this.memory.give(this.organization, this.bytes, this.copies - copies, copies === 0)
    this.copies = copies
  }
}
