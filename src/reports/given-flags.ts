/** The flags of a command, or the parameters of a query with the same names. Switches are true. */
export type GivenFlags = Readonly<Record<string, string | boolean | undefined>>
