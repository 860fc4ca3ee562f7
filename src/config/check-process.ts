/** What the settings of the process itself must be beyond their shape: ports, workers, the ledger, compaction keys, candidates of `auto`. */

import type { Check } from './check.ts'

export function checkProcess(check: Check): void {
  checkPorts(check)
  checkWorkers(check)
  check.file.compaction?.keys?.forEach((key, index) => {
    if (key !== undefined && !isKeyOf32Bytes(key)) {
      check.problems.add(['compaction', 'keys', index], 'must be 32 bytes in base64 (openssl rand -base64 32)')
    }
  })
}

function checkPorts({ file, problems }: Check): void {
  const port = file.listen?.port ?? 8080
  const admin = file.admin?.port ?? 9090
  if (port !== admin || port === 0) return
  const hosts = [file.listen?.host ?? '127.0.0.1', file.admin?.host ?? '127.0.0.1']
  if (hosts[0] === hosts[1] || hosts.some((host) => host === '0.0.0.0' || host === '::')) {
    problems.add(['admin', 'port'], `is the port of the inference API, too (${port}); give it another`)
  }
}

function checkWorkers({ file, problems, cores }: Check): void {
  const written = file.workers
  if (written === undefined || (file.ledger ?? 'embedded') !== 'embedded') return
  const workers = written === 'auto' ? cores : written
  if (workers <= 1) return
  const meaning = written === 'auto' ? `auto means ${cores} on this machine, and more` : 'more'
  problems.add(['workers'], `${meaning} than 1 needs Redis; set ledger: { redis: … } or workers: 1`)
}

function isKeyOf32Bytes(key: string): boolean {
  return /^[A-Za-z0-9+/]{43}=?$/.test(key) && Buffer.from(key, 'base64').length === 32
}
