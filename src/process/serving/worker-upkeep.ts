/** The upkeep of the data in Redis by one worker of each machine: what it finds goes to the log and the supervisor. */

import type { InferenceService } from '../../assembly/inference-service.ts'
import { beginUpkeep } from '../../assembly/open-ledger.ts'
import type { Config } from '../../config/config.ts'
import { AHEAD_ADVICE } from '../../ledger/window-reset.ts'
import type { Logger } from '../../logging/log.ts'
import { logEvent } from '../../logging/log-events.ts'

const MANY_FIELDS =
  'revoke unused keys (weir keys list, weir keys revoke); weir deletes the data of a key from Redis a day after ' +
  'its last request'

/** Resolves to the function that ends it. `sendFields` takes the number of fields of the largest organisation. */
export function workerUpkeep(
  config: Config,
  service: InferenceService,
  logger: Logger,
  sendFields: (fields: number) => void,
): Promise<() => void> {
  return beginUpkeep(config, {
    isConfigured: (organization, key) => service.isConfigured(organization, key),
    measured: sendFields,
    ahead: (organization) => logEvent(logger, 'ledger.window_ahead', { organization, advice: AHEAD_ADVICE }),
    timely: (organization) => logEvent(logger, 'ledger.window_recovered', { organization }),
    calmed: ({ organization, fields }) => logEvent(logger, 'ledger.fields_recovered', { organization, fields }),
    undurable: (warning) => logEvent(logger, 'ledger.undurable', { warning }),
    denied: (why) => logEvent(logger, 'ledger.fields_unknown', { why }),
    alarmed: ({ organization, fields }) =>
      logEvent(logger, 'ledger.many_fields', { organization, fields, advice: MANY_FIELDS }),
  })
}
