/** Passes descriptors between the supervisor and one worker process, through a pair of sockets. */

import { closeDescriptor, hasLibc, receiveDescriptor, sendDescriptor, socketPair } from '../system/libc.ts'

export class DescriptorChannel {
  private constructor(
    private readonly own: number,
    /** For the worker. `spawned` closes it here. */
    readonly theirs: number,
  ) {}

  /** Undefined on systems other than Linux with glibc, where workers cannot be replaced. */
  static open(): DescriptorChannel | undefined {
    if (!hasLibc()) return undefined
    return new DescriptorChannel(...socketPair())
  }

  /** Call when the worker has its end. */
  spawned(): void {
    closeDescriptor(this.theirs)
  }

  /** Throws `SystemCallError` if the worker has sent none. */
  receive(): number {
    return receiveDescriptor(this.own)
  }

  /** Sends a descriptor, which stays open here. */
  send(descriptor: number): void {
    sendDescriptor(this.own, descriptor)
  }

  /** Sends a descriptor and closes it here. */
  give(descriptor: number): void {
    try {
      this.send(descriptor)
    } finally {
      closeDescriptor(descriptor)
    }
  }

  close(): void {
    closeDescriptor(this.own)
  }
}
