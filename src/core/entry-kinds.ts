/** What the entries of a conversation and of a list of tools are. To be imported as `Kind`: `Kind.TEXT`. */

/** A message begins with an entry of its role; the entries up to the next message are its content. */
export const SYSTEM = 0
export const USER = 1
export const ASSISTANT = 2
export const TOOL = 3
/** The content of a message. Spans are the insides of JSON strings, unless they are called JSON. */
export const TEXT = 4
/** First among the content of a tool's message: the id of the call that it answers. */
export const RESULT_ID = 5
/** A call of the assistant, after all of its texts: its id, its name and its arguments follow each other. */
export const CALL_ID = 6
export const NAME = 7
/** The text of the arguments, which is JSON, or what a model has written of it. */
export const ARGUMENTS = 8
/** In place of arguments: JSON, an object. Of a tool: the schema of its parameters. */
export const INPUT = 9
/** Of a tool, JSON: `true` or `false`, whether its arguments always match the schema. */
export const STRICT = 10
/** A refusal in place of an answer, after its texts. */
export const REFUSAL = 11
/** An image in base64; its media type follows. */
export const IMAGE = 12
export const MEDIA_TYPE = 13
/** An image by its address, which the provider fetches. */
export const IMAGE_URL = 14
/** Sound in base64; its format follows if it has one. */
export const AUDIO = 15
export const FORMAT = 16
/** A document in base64; its name follows if it has one. */
export const FILE = 17
export const FILE_NAME = 18
/**
 * A document: in base64, its media type after it; as text; or by its address. Then its name and its context, if it has
 * them.
 */
export const DOCUMENT = 19
export const DOCUMENT_TEXT = 20
export const DOCUMENT_URL = 21
/** A document of texts and images, which follow its name and context, and after them its end. */
export const DOCUMENT_PARTS = 22
export const DOCUMENT_END = 25
/** A note of the caller about a document. */
export const CONTEXT = 23
/** Of a tool that takes a text instead of arguments: its definition, as JSON. */
export const FREE_FORM = 26
/** A block of the caller's API that the canonical form has no kind for, as JSON, for providers of the same API. */
export const OWN_BLOCK = 24
