/** An organisation of the configuration with its keys: models they may use, and limits. Plain data without secrets. */

import type { BudgetConfig } from './budget-config.ts'
import type { CompatibilitySettings } from './compatibility.ts'
import type { Limits } from './limits.ts'
import type { AccessRule } from './permission.ts'

/** Whether a key may, or must, let the gateway choose the model. */
type AutoSetting = 'off' | 'available' | 'mandatory'

export interface OrganizationConfig {
  readonly id: string
  /** Globs over public names; absent = all. */
  readonly models?: readonly string[] | undefined
  /** The first that matches decides; none = allowed. */
  readonly rules: readonly AccessRule[]
  readonly auto: AutoSetting
  readonly limits: Limits
  /** Of the days, weeks and months of its budgets; absent = UTC. */
  readonly timezone?: string | undefined
  /** Absent = none. */
  readonly budgets?: readonly BudgetConfig[] | undefined
  /** How large its share is where requests wait for providers; absent = 1. */
  readonly weight?: number | undefined
  /** Absent: as the whole configuration has it. */
  readonly compatibility?: CompatibilitySettings | undefined
  readonly keys: readonly KeyConfig[]
  /** Its keys are rejected. Only an organisation that a command created can be disabled. */
  readonly disabled?: boolean | undefined
}

export interface KeyConfig {
  readonly id: string
  /** SHA-256 of the key, 64 lower-case hex digits. */
  readonly sha256: string
  /** Globs over public names; absent = all that the organisation may use. */
  readonly models?: readonly string[] | undefined
  /** The key's own setting, or the organisation's if the key has none. */
  readonly auto: AutoSetting
  readonly limits: Limits
  /** Who goes first where requests wait for providers; absent = `interactive`. */
  readonly priority?: 'interactive' | 'batch' | undefined
  /** How long its requests wait at most; absent = as long as `queue` has it. */
  readonly maxWaitMs?: number | undefined
  /** Absent: as the organisation has it. */
  readonly compatibility?: CompatibilitySettings | undefined
  /** The values that hold where a request names none, by name. */
  readonly tags?: Readonly<Record<string, string>> | undefined
  /** The values that hold whatever a request names, by name. */
  readonly fixedTags?: Readonly<Record<string, string>> | undefined
  /** Unix milliseconds; from this moment on the key is rejected. */
  readonly expiresAtMs?: number | undefined
  readonly disabled: boolean
}

/** A key that commands and the admin API make, without its secret. */
export interface KeyDescription
  extends Pick<KeyConfig, 'id' | 'models' | 'priority' | 'maxWaitMs' | 'tags' | 'fixedTags' | 'expiresAtMs'> {
  readonly organization: string
  readonly limits?: Limits | undefined
}

/** An organisation that commands and the admin API make. */
export interface OrganizationDescription extends Pick<OrganizationConfig, 'id' | 'models' | 'weight'> {
  readonly limits?: Limits | undefined
  readonly disabled: boolean
}

/** A key that expires. */
export interface ExpiringKey {
  readonly id: string
  readonly organization: string
  readonly expiresAtMs: number
}
