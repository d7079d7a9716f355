// Package credentials knows the logins of the services and what the whole fleet
// knows about them: which one rests, until when, and who may try it.
//
// # A login
//
// A login comes from a file, an environment variable of the worker or the output
// of a command. It is read when a run needs it, becomes environment variables of
// that run's agent and is stored nowhere: Redis, logs and errors know its id and
// a salted hash, by which a changed login is noticed. A service without logins
// has one implicit login, the program's own sign-in, named SERVICE:implicit.
//
// # A rest
//
// A failure that says something about a login makes it rest: the credential
// itself, one model of it, its organisation or the host, as far as the failure
// reaches. A cooldown is a prediction, so it is not trusted for long: however
// late the provider promises to be back, after a few minutes (Config.Ceiling)
// exactly one run may probe the login. A success ends the rest, another failure
// goes on with it. A login that is dead is disabled until it changes, and then
// probed as well.
//
//	usable   no record
//	cooling  until a time; to be probed earlier
//	probing  one run tries it, bounded
//	disabled until the login changes or a person clears it
//
// # Keys
//
// All keys have one tag, so that one script sees all rests of a choice. Times
// are Redis' own, in milliseconds.
//
//	rota:{credentials}:salt          string  random, for the hashes; for ever
//	rota:{credentials}:used          zset    login -> last choice, µs; for ever
//	rota:{credentials}:rests         set     names of the rests below; fail adds, succeed and clear remove
//	rota:{credentials}:rest:NAME     hash    one rest; fail writes, succeed and clear delete, goes by itself a week after its end
//	rota:{credentials}:refresh:ID    string  token of the process that refreshes the login; bounded
//
// NAME is credential/ID, model/ID/MODEL, organisation/NAME or host/NAME.
package credentials
