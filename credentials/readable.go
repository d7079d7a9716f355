package credentials

import "context"

// Readable returns an error unless the login can be read on this host for the
// service's agent, for doctor. Nothing of the login is in the error.
func (c *Credentials) Readable(ctx context.Context, id, service string) error {
	_, err := c.load(ctx, id, service)
	return err
}
