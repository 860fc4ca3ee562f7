/** Keeps a worker up to date with the keys that commands create. */

import type { InferenceService } from '../../assembly/inference-service.ts'
import { keyFollower } from '../../assembly/open-ledger.ts'
import type { Config } from '../../config/config.ts'
import { DAY_MS } from '../../core/durations.ts'
import { messageOf } from '../../core/error-message.ts'
import type { KeyFollower } from '../../keys/key-follower.ts'
import { type KeyRecord, revokedKeyOf } from '../../keys/key-record.ts'
import { logKeyChange } from '../../logging/key-events.ts'
import type { Logger } from '../../logging/log.ts'
import { logEvent } from '../../logging/log-events.ts'

/**
 * How long a start waits for the first read of the stored keys, which are rejected until then. An unreachable or
 * large store may take longer.
 */
const KEYS_MS_MAX = 500

/** Resolves when the keys are read, or earlier if that takes long. `worker`: its number. */
export async function followKeys(
  config: Config,
  service: InferenceService,
  logger: Logger,
  worker: number,
): Promise<KeyFollower> {
  const follower = await keyFollower(config, {
    // One worker of each machine.
    prunes: worker === 0,
    pruneFailed: (error) => {
      const why = messageOf(error)
      logEvent(logger, 'keys.prune_failed', { worker, why })
    },
    configured: service.configuredKeys,
    ...(worker === 0 ? { changed: (entry) => logKeyChange(logger, entry) } : {}),
    inForce: (revocation) => logRevocation(logger, revocation),
    keepAuditMs: config.audit.keepDays * DAY_MS,
  })
  service.follow(follower)
  await Promise.race([follower.start(), Bun.sleep(KEYS_MS_MAX)])
  return follower
}

function logRevocation(logger: Logger, { id, organization, createdMs }: KeyRecord): void {
  const since = new Date(createdMs).toISOString()
  logEvent(logger, 'key.revocation_in_force', { organization, key: revokedKeyOf(id), since })
}
