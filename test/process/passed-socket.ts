/** A listening socket of the test that is passed to weir as systemd does it: blocking, and open until the test ends. */

import { dlopen, ptr } from 'bun:ffi'
import { PROGRAM } from './weir.ts'

const AF_INET = 2
const SOCK_STREAM = 1
const SOCK_CLOEXEC = 0o2000000
const LOOPBACK = 0x7f000001

const libc = dlopen('libc.so.6', {
  socket: { args: ['int', 'int', 'int'], returns: 'int' },
  bind: { args: ['int', 'ptr', 'u32'], returns: 'int' },
  listen: { args: ['int', 'int'], returns: 'int' },
  getsockname: { args: ['int', 'ptr', 'ptr'], returns: 'int' },
  close: { args: ['int'], returns: 'int' },
}).symbols

export class PassedSocket implements Disposable {
  private constructor(
    readonly descriptor: number,
    readonly port: number,
  ) {}

  /** Listens on a free port of 127.0.0.1; without `listens` it is only bound. */
  static open(listens = true): PassedSocket {
    const descriptor = libc.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)
    const address = new DataView(new ArrayBuffer(16))
    address.setUint16(0, AF_INET, true)
    address.setUint32(4, LOOPBACK)
    const length = new Uint32Array([16])
    if (libc.bind(descriptor, ptr(address), 16) !== 0) throw new Error('bind failed')
    if (listens && libc.listen(descriptor, 4096) !== 0) throw new Error('listen failed')
    if (libc.getsockname(descriptor, ptr(address), ptr(length)) !== 0) throw new Error('getsockname failed')
    return new PassedSocket(descriptor, address.getUint16(2))
  }

  /** The options to start weir with it. `count` is what systemd would say. */
  start(count = 1) {
    const script = `LISTEN_PID=$$ LISTEN_FDS=${count} LISTEN_FDNAMES=weir.socket exec "$@"`
    return { descriptor: this.descriptor, program: ['sh', '-c', script, 'sh', ...PROGRAM] }
  }

  [Symbol.dispose](): void {
    libc.close(this.descriptor)
  }
}
