/** The flags of a script of this repository: `--help` prints its help, and a wrong flag its usage. */

interface Given {
  readonly help?: boolean | undefined
}

/**
 * The result of `flagsOf` for the flags that `parse` reads, which is undefined if a value is wrong. Ends the process
 * after `--help` with 0, and after a wrong flag or value with 2.
 */
export function scriptFlags<Values extends Given, Flags>(
  help: string,
  parse: () => { readonly values: Values },
  flagsOf: (values: Values) => Flags | undefined,
): Flags {
  const values = parsed(parse)
  if (values?.help === true) {
    process.stdout.write(help)
    process.exit(0)
  }
  const flags = values && flagsOf(values)
  if (flags !== undefined) return flags
  process.stderr.write(help)
  process.exit(2)
}

function parsed<Values>(parse: () => { readonly values: Values }): Values | undefined {
  try {
    return parse().values
  } catch (error) {
    // An unknown flag; anything else is a bug.
    if (error instanceof TypeError && 'code' in error) return undefined
    throw error
  }
}
