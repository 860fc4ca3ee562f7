/** The headers of requests in the reference, besides those of authentication. All are optional. */

export const parameterComponents = {
  Tags: {
    name: 'X-Gateway-Tags',
    in: 'header',
    required: false,
    description:
      'Tags of the request, for the log and for sums of usage: at most 8, each with a name that the operator ' +
      'configured and a value of 1 to 64 characters of `A-Za-z0-9._/@:-`. Ignored if the operator configured none.',
    schema: { type: 'string' },
    example: 'project=checkout,team=payments',
  },
  Traceparent: {
    name: 'traceparent',
    in: 'header',
    required: false,
    description: 'The W3C trace context, which weir continues if the operator configured tracing.',
    schema: { type: 'string' },
    example: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  },
} as const

/** References to all of them: every operation takes them. */
export const PARAMETERS = Object.keys(parameterComponents).map((name) => ({ $ref: `#/components/parameters/${name}` }))
