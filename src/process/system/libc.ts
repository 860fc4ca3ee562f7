/**
 * System calls that Bun has no API for, made through the C library of Linux: descriptors that are passed from process
 * to process, the event loop's registration of a listening socket, and datagrams to a Unix socket.
 */

import { dlopen, ptr, read } from 'bun:ffi'

const O_CLOEXEC = 0o2000000
const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const SOCK_STREAM = 1
const SOCK_DGRAM = 2
const SOCK_CLOEXEC = O_CLOEXEC
const SOL_SOCKET = 1
const SO_PEERCRED = 17
const SO_ACCEPTCONN = 30
const SCM_RIGHTS = 1
const MSG_DONTWAIT = 0x40
const MSG_NOSIGNAL = 0x4000
const MSG_CMSG_CLOEXEC = 0x40000000
const CLOCK_MONOTONIC = 1
/** The longest path in `struct sockaddr_un`. */
const SOCKET_PATH_BYTES_MAX = 108
const EPOLL_CTL_ADD = 1
const EPOLL_CTL_DEL = 2
const F_SETFD = 2
const F_GETFL = 3
const F_SETFL = 4
const FD_CLOEXEC = 1
const O_NONBLOCK = 0o4000

/** `struct msghdr`, `struct iovec` and a control message with one descriptor, of 64-bit Linux. */
const MESSAGE_BYTES = 56
const VECTOR_BYTES = 16
const CONTROL_BYTES = 24
const CONTROL_LENGTH = 20

const signatures = {
  __errno_location: { args: [], returns: 'ptr' },
  clock_gettime: { args: ['int', 'ptr'], returns: 'int' },
  close: { args: ['int'], returns: 'int' },
  dup3: { args: ['int', 'int', 'int'], returns: 'int' },
  epoll_ctl: { args: ['int', 'int', 'int', 'ptr'], returns: 'int' },
  fcntl: { args: ['int', 'int', 'int'], returns: 'int' },
  getsockname: { args: ['int', 'ptr', 'ptr'], returns: 'int' },
  getsockopt: { args: ['int', 'int', 'int', 'ptr', 'ptr'], returns: 'int' },
  recvmsg: { args: ['int', 'ptr', 'int'], returns: 'i64' },
  sendmsg: { args: ['int', 'ptr', 'int'], returns: 'i64' },
  sendto: { args: ['int', 'ptr', 'u64', 'int', 'ptr', 'u32'], returns: 'i64' },
  socket: { args: ['int', 'int', 'int'], returns: 'int' },
  socketpair: { args: ['int', 'int', 'int', 'ptr'], returns: 'int' },
} as const

type Libc = ReturnType<typeof dlopen<typeof signatures>>['symbols']

let loaded: Libc | undefined

/** Throws if this system has no C library of this kind: on others than Linux with glibc. */
function libc(): Libc {
  loaded ??= dlopen('libc.so.6', signatures).symbols
  return loaded
}

/** Whether these calls can be made here: on 64-bit Linux with glibc. */
export function hasLibc(): boolean {
  if (process.platform !== 'linux') return false
  try {
    libc()
    return true
  } catch {
    // Linux with another C library.
    return false
  }
}

/** A system call failed. */
export class SystemCallError extends Error {
  override readonly name = 'SystemCallError'
}

/** Throws `SystemCallError` if the result of a call is negative. */
function checked(call: string, result: number | bigint): number {
  if (result >= 0) return Number(result)
  const where = libc().__errno_location()
  throw new SystemCallError(`${call} failed (errno ${where === null ? 'unknown' : read.i32(where, 0)})`)
}

export function closeDescriptor(descriptor: number): void {
  checked('close', libc().close(descriptor))
}

/** Makes `target` another number of what `source` refers to. What `target` referred to before is closed. */
export function replaceDescriptor(source: number, target: number): void {
  checked('dup3', libc().dup3(source, target, O_CLOEXEC))
}

/** Two connected Unix sockets, both closed when this process executes another program. */
export function socketPair(): readonly [number, number] {
  const pair = new Int32Array(2)
  checked('socketpair', libc().socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ptr(pair)))
  return [pair[0] ?? -1, pair[1] ?? -1]
}

/** Sends a descriptor through a Unix socket, with one byte. The receiver gets a descriptor of its own. */
export function sendDescriptor(socket: number, descriptor: number): void {
  const message = new DescriptorMessage()
  message.control.setBigUint64(0, BigInt(CONTROL_LENGTH), true)
  message.control.setInt32(8, SOL_SOCKET, true)
  message.control.setInt32(12, SCM_RIGHTS, true)
  message.control.setInt32(16, descriptor, true)
  checked('sendmsg', libc().sendmsg(socket, message.pointer, MSG_DONTWAIT | MSG_NOSIGNAL))
}

/** Receives a descriptor that `sendDescriptor` has sent. Does not wait for one. */
export function receiveDescriptor(socket: number): number {
  const message = new DescriptorMessage()
  checked('recvmsg', libc().recvmsg(socket, message.pointer, MSG_DONTWAIT | MSG_CMSG_CLOEXEC))
  const isDescriptor =
    message.control.getBigUint64(0, true) === BigInt(CONTROL_LENGTH) &&
    message.control.getInt32(12, true) === SCM_RIGHTS
  if (!isDescriptor) throw new SystemCallError('recvmsg received no descriptor')
  return message.control.getInt32(16, true)
}

/** The structures of a message with one byte and room for one descriptor. */
class DescriptorMessage {
  readonly control = new DataView(new ArrayBuffer(CONTROL_BYTES))
  private readonly header = new DataView(new ArrayBuffer(MESSAGE_BYTES))
  private readonly vector = new DataView(new ArrayBuffer(VECTOR_BYTES))
  private readonly byte = new Uint8Array(1)

  constructor() {
    const { header, vector } = this
    vector.setBigUint64(0, BigInt(ptr(this.byte)), true)
    vector.setBigUint64(8, 1n, true)
    header.setBigUint64(16, BigInt(ptr(vector)), true)
    header.setBigUint64(24, 1n, true)
    header.setBigUint64(32, BigInt(ptr(this.control)), true)
    header.setBigUint64(40, BigInt(CONTROL_BYTES), true)
  }

  get pointer() {
    return ptr(this.header)
  }
}

/** How an `epoll` instance watches a descriptor. */
export interface Watch {
  readonly epoll: number
  readonly events: number
  readonly data: bigint
}

export function watchDescriptor(descriptor: number, watch: Watch): void {
  checked('epoll_ctl', libc().epoll_ctl(watch.epoll, EPOLL_CTL_ADD, descriptor, ptr(eventOf(watch))))
}

export function unwatchDescriptor(descriptor: number, watch: Watch): void {
  checked('epoll_ctl', libc().epoll_ctl(watch.epoll, EPOLL_CTL_DEL, descriptor, ptr(eventOf(watch))))
}

/** `struct epoll_event`, which has no padding on x64 alone. */
function eventOf({ events, data }: Watch): DataView {
  const offset = process.arch === 'x64' ? 4 : 8
  const event = new DataView(new ArrayBuffer(offset + 8))
  event.setUint32(0, events, true)
  event.setBigUint64(offset, data, true)
  return event
}

/** The local TCP port of a descriptor; undefined if it is not a TCP socket with an address. */
export function localPort(descriptor: number): number | undefined {
  const address = new DataView(new ArrayBuffer(128))
  const length = new Uint32Array([128])
  if (libc().getsockname(descriptor, ptr(address), ptr(length)) !== 0) return undefined
  const family = address.getUint16(0, true)
  return family === AF_INET || family === AF_INET6 ? address.getUint16(2) : undefined
}

/** The user of the process at the other end of a Unix socket; undefined if this system cannot know it. */
export function peerUid(descriptor: number): number | undefined {
  if (!hasLibc()) return undefined
  // `struct ucred`: the process, the user and the group.
  const [credentials, length] = [new Int32Array(3), new Int32Array([12])]
  const result = libc().getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, ptr(credentials), ptr(length))
  return result === 0 ? credentials[1] : undefined
}

/** Whether a descriptor is a listening socket. */
export function isListening(descriptor: number): boolean {
  const value = new Int32Array(1)
  const length = new Uint32Array([4])
  const result = libc().getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, ptr(value), ptr(length))
  return result === 0 && value[0] === 1
}

/**
 * Makes a listening socket that another program opened fit for an event loop: `accept` must not wait, and processes
 * that this one starts must not inherit it.
 */
export function preparePassedSocket(descriptor: number): void {
  const { fcntl } = libc()
  checked('fcntl', fcntl(descriptor, F_SETFD, FD_CLOEXEC))
  checked('fcntl', fcntl(descriptor, F_SETFL, checked('fcntl', fcntl(descriptor, F_GETFL, 0)) | O_NONBLOCK))
}

/**
 * Sends a datagram to a Unix socket: to its path, or with a leading `@` to its abstract name. Throws `SystemCallError`
 * if no process receives there.
 */
export function sendDatagram(to: string, text: string): void {
  const path = Buffer.from(to)
  if (path.length >= SOCKET_PATH_BYTES_MAX) throw new SystemCallError('the path of the socket is too long')
  const isAbstract = to.startsWith('@')
  if (isAbstract) path[0] = 0
  const address = Buffer.alloc(2 + SOCKET_PATH_BYTES_MAX)
  address.writeUInt16LE(AF_UNIX)
  path.copy(address, 2)
  // A path ends with a zero byte; an abstract name has exactly its length.
  const length = 2 + path.length + (isAbstract ? 0 : 1)
  const bytes = Buffer.from(text)
  const socket = checked('socket', libc().socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0))
  try {
    const flags = MSG_NOSIGNAL | MSG_DONTWAIT
    checked('sendto', libc().sendto(socket, ptr(bytes), bytes.length, flags, ptr(address), length))
  } finally {
    closeDescriptor(socket)
  }
}

/** The clock that systemd compares with. Bun's own begin with the process. */
export function monotonicMicroseconds(): bigint {
  const time = new BigInt64Array(2)
  checked('clock_gettime', libc().clock_gettime(CLOCK_MONOTONIC, ptr(time)))
  const [seconds = 0n, nanoseconds = 0n] = time
  return seconds * 1_000_000n + nanoseconds / 1000n
}
