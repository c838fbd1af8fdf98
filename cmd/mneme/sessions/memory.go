package sessions

// CollectAt is GOGC of a process that stays for days next to an agent, which gets no memory
// that the process keeps.
const CollectAt = 50
