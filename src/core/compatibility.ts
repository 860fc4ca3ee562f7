/**
 * What callers may send, and what they get to see, beyond the specification: the switches, and how the settings of the
 * program, an organisation and a key become one choice for a request.
 */

/** The values of each switch: that of the specification first, then that of native mode. */
export const SWITCHES = {
  reasoning: ['off', 'pass'],
  structured_output: ['off', 'pass'],
  content: ['off', 'pass'],
  tools: ['functions', 'pass'],
  betas: ['off', 'pass'],
  status: ['completed', 'provider'],
  provider_errors: ['rewritten', 'pass'],
  metadata: ['refuse', 'accept'],
} as const

type Switches = typeof SWITCHES

export const MODES = ['specification', 'native'] as const

/** What one level sets: the whole program, an organisation, or a key. */
export type CompatibilitySettings = {
  readonly [Name in keyof Switches]?: Switches[Name][number] | undefined
} & { readonly mode?: (typeof MODES)[number] | undefined }

const SWITCH_NAMES = Object.keys(SWITCHES) as (keyof Switches)[]

/** What holds for a request. */
export type Compatibility = { readonly [Name in keyof Switches]: Switches[Name][number] }

const [SPECIFICATION, NATIVE] = [valuesAt(0), valuesAt(1)]

function valuesAt(index: 0 | 1): Compatibility {
  return Object.fromEntries(SWITCH_NAMES.map((name) => [name, SWITCHES[name][index]])) as Compatibility
}

/**
 * What `settings` make of the choice of the level above. They decide the switches that they name and, if they name a
 * mode, all others, too.
 */
export function compatibilityOf(
  settings: CompatibilitySettings = {},
  above: Compatibility = SPECIFICATION,
): Compatibility {
  const { mode } = settings
  const others = mode === undefined ? above : mode === 'native' ? NATIVE : SPECIFICATION
  const own = SWITCH_NAMES.filter((name) => settings[name] !== undefined)
  return own.length === 0 ? others : { ...others, ...Object.fromEntries(own.map((name) => [name, settings[name]])) }
}
