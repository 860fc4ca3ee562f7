/** The CPU time of a role over the lives of its processes. */

import { expect, test } from 'bun:test'
import { ProcessUsages, type RunningProcess } from '../../src/process/system/process-usage.ts'
import { until } from './weir.ts'

test.skipIf(process.platform !== 'linux')('the CPU time of a worker stays while it is down, and goes on', async () => {
  const usages = new ProcessUsages()
  const role = { process: 'worker', worker: '0' } as const
  const of = (running: readonly RunningProcess[]) => usages.read(running).find(({ worker }) => worker === '0')
  const busy = () => Bun.spawn([process.execPath, '-e', 'for (;;);'], { stdio: ['ignore', 'ignore', 'ignore'] })
  const end = async (child: Bun.Subprocess) => {
    child.kill('SIGKILL')
    await child.exited
  }
  const first = busy()
  await until(() => (of([{ ...role, pid: first.pid }])?.cpuSeconds ?? 0) > 0.1)
  const before = of([{ ...role, pid: first.pid }])?.cpuSeconds ?? 0
  await end(first)
  // The supervisor still lists a process that has just ended.
  expect(of([{ ...role, pid: first.pid }])).toEqual({ ...role, cpuSeconds: before, running: undefined })
  for (let look = 0; look < 2; look++) expect(of([])).toEqual({ ...role, cpuSeconds: before, running: undefined })
  const second = busy()
  const listed = [{ ...role, pid: second.pid }]
  await until(() => (of(listed)?.cpuSeconds ?? 0) > before + 0.1)
  expect(of(listed)?.running?.residentBytes).toBeGreaterThan(0)
  await end(second)
})
