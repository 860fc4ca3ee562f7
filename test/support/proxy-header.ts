/** Makes headers of the PROXY protocol, version 2. */

const SIGNATURE = Buffer.from('0d0a0d0a000d0a515549540a', 'hex')

interface HeaderOptions {
  /** 0x21 is version 2 and PROXY, 0x20 is version 2 and LOCAL. */
  readonly versionAndCommand?: number
  /** 0x11 is TCP over IPv4, 0x21 over IPv6. */
  readonly family: number
  /** Addresses, ports and what follows them. */
  readonly rest: Buffer
}

export function proxyHeader({ versionAndCommand = 0x21, family, rest }: HeaderOptions): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(rest.length)
  return Buffer.concat([SIGNATURE, Buffer.from([versionAndCommand, family]), length, rest])
}

/** A header with the source `192.0.2.LAST`, and perhaps fields of a load balancer's own. */
export function ipv4Header(last: number, more = Buffer.alloc(0)): Buffer {
  const rest = Buffer.from([192, 0, 2, last, 10, 0, 0, 1, 0x12, 0x34, 0x1f, 0x90])
  return proxyHeader({ family: 0x11, rest: Buffer.concat([rest, more]) })
}
