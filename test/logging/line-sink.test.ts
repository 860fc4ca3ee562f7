import { expect, test } from 'bun:test'
import { closeSync, openSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isRegularFile, LineSink, type Write } from '../../src/logging/line-sink.ts'

/** A reader that takes nothing until the test allows it; `taken` are the writes that it took, as text. */
class Reader {
  readonly taken: string[] = []
  private readonly waiting: (() => void)[] = []
  private flowing = false
  /** The next writes end so, instead of being taken. */
  readonly answers: ({ error: string } | { partial: number })[] = []

  readonly write: Write = (bytes, done) => {
    const text = Buffer.from(bytes).toString()
    const take = () => {
      const answer = this.answers.shift()
      if (answer !== undefined && 'error' in answer) return done(Object.assign(new Error(), { code: answer.error }), 0)
      const length = answer === undefined ? bytes.length : answer.partial
      this.taken.push(text.slice(0, length))
      done(null, length)
    }
    if (this.flowing) queueMicrotask(take)
    else this.waiting.push(take)
  }

  flow(): void {
    this.flowing = true
    for (const take of this.waiting.splice(0)) take()
  }
}

function sink(reader: Reader, heldBytesMax?: number): LineSink {
  const notice = (dropped: number) => `dropped ${dropped}\n`
  return heldBytesMax === undefined
    ? new LineSink({ write: reader.write, notice })
    : new LineSink({ write: reader.write, notice, heldBytesMax })
}

test('lines come out whole, in order, in writes of at most 4096 bytes', async () => {
  const reader = new Reader()
  const lines = Array.from({ length: 500 }, (_, n) => `${n} ${'é'.repeat(n % 90)}\n`)
  const log = sink(reader)
  for (const line of lines) log.write(line)
  reader.flow()
  await log.flush(1000)
  expect(reader.taken.join('')).toBe(lines.join(''))
  for (const write of reader.taken) {
    expect(Buffer.byteLength(write)).toBeLessThanOrEqual(4096)
    expect(write.endsWith('\n')).toBe(true)
  }
  expect(reader.taken.length).toBeLessThan(30)
})

test('writes are larger if nobody can split them, also beside other processes', async () => {
  const reader = new Reader()
  const log = new LineSink({ write: reader.write, notice: () => '', isWhole: true })
  log.writeAlone(false)
  const line = `${'x'.repeat(999)}\n`
  for (let n = 0; n < 60; n++) log.write(line)
  reader.flow()
  await log.flush(1000)
  expect(reader.taken).toEqual([line.repeat(60)])
})

test('processes that share a file write whole lines to it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'weir-log-'))
  try {
    const file = join(folder, 'log')
    const fd = openSync(file, 'w')
    const device = openSync('/dev/null', 'w')
    expect([isRegularFile(fd), isRegularFile(device)]).toEqual([true, false])
    closeSync(device)
    const code = `
      const { descriptor, LineSink } = await import('${join(import.meta.dir, '../../src/logging/line-sink.ts')}')
      const log = new LineSink({ write: descriptor(1), notice: () => 'dropped', isWhole: true })
      for (let n = 0; n < 5000; n++) {
        log.write(process.argv.at(-1).repeat(1 + (n % 700)) + '\\n')
        if (n % 100 === 0) await log.flush(1000)
      }
      await log.flush(1000)`
    const names = ['a', 'b', 'c']
    const writers = names.map((name) =>
      Bun.spawn([process.execPath, '-e', code, name], { stdio: ['ignore', fd, 'inherit'] }),
    )
    expect(await Promise.all(writers.map((writer) => writer.exited))).toEqual([0, 0, 0])
    closeSync(fd)
    const lines = (await Bun.file(file).text()).trimEnd().split('\n')
    expect(lines.filter((line) => !/^(?:a+|b+|c+)$/.test(line))).toEqual([])
    for (const name of names) {
      const lengths = lines.filter((line) => line.startsWith(name)).map((line) => line.length)
      expect(lengths).toEqual(Array.from({ length: 5000 }, (_, n) => 1 + (n % 700)))
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

test('a line longer than one write goes alone', async () => {
  const reader = new Reader()
  const log = sink(reader)
  const long = `${'x'.repeat(5000)}\n`
  for (const line of ['a\n', long, 'b\n']) log.write(line)
  reader.flow()
  await log.flush(1000)
  expect(reader.taken).toEqual(['a\n', long, 'b\n'])
})

test('a stalled reader costs bounded memory: further lines are dropped, counted, and reported once', async () => {
  const reader = new Reader()
  const log = sink(reader, 1000)
  for (let n = 0; n < 200; n++) log.write(`line ${String(n).padStart(4, '0')}\n`)
  reader.flow()
  await log.flush(1000)
  const lines = reader.taken.join('').trimEnd().split('\n')
  expect(lines.slice(0, 100)).toEqual(Array.from({ length: 100 }, (_, n) => `line ${String(n).padStart(4, '0')}`))
  expect(lines.slice(100)).toEqual(['dropped 100'])
})

test('flush waits for a stalled reader no longer than its limit', async () => {
  const log = sink(new Reader())
  log.write('a\n')
  await log.flush(10)
})

test('a write to a full pipe is retried, no part is written twice, and a lost write is counted', async () => {
  const reader = new Reader()
  reader.answers.push({ error: 'EAGAIN' }, { partial: 2 })
  reader.flow()
  const log = sink(reader)
  log.write('first\n')
  await log.flush(1000)
  expect(reader.taken.join('')).toBe('first\n')

  reader.answers.push({ error: 'ENOSPC' })
  log.write('lost\n')
  await log.flush(1000)
  log.write('next\n')
  await log.flush(1000)
  expect(reader.taken.join('')).toBe('first\nnext\ndropped 1\n')
})

test('a closed pipe costs one write for each line, not an endless loop', async () => {
  let writes = 0
  const log = new LineSink({
    notice: (dropped) => `dropped ${dropped}\n`,
    write: (_bytes, done) => {
      writes++
      queueMicrotask(() => done(Object.assign(new Error(), { code: 'EPIPE' }), 0))
    },
  })
  for (let n = 0; n < 3; n++) {
    log.write('line\n')
    await log.flush(1000)
  }
  expect(writes).toBe(3)
})

test('a line does not wait for others', async () => {
  const reader = new Reader()
  reader.flow()
  const taken = Promise.withResolvers<void>()
  const log = new LineSink({
    notice: () => '',
    write: (bytes, done) => {
      reader.write(bytes, done)
      taken.resolve()
    },
  })
  log.write('a\n')
  await taken.promise
})
