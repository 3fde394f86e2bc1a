//! Counts the tenants that post to a fair queue.

use crate::Error;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::tenants::Tenants;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::write::WriteTransaction;
use sukkal_domain::Tenant;

impl<T: Table> View<T> {
    pub(crate) fn tenants(&self, number: u64) -> Result<Tenants, Error> {
        match self.contents.get(&*keys::part_prefix(number, Part::Tenants))? {
            Some(tenants) => Tenants::decode(tenants.value()),
            None => Ok(Tenants::default()),
        }
    }
}

impl WriteTransaction<'_> {
    /// Counts the tenants of new messages, if there are any.
    pub(crate) fn count_tenants<'a>(
        &mut self,
        number: u64,
        now_us: u64,
        tenants: impl Iterator<Item = &'a Tenant>,
    ) -> Result<(), Error> {
        let mut tenants = tenants.peekable();
        if tenants.peek().is_none() {
            return Ok(());
        }
        let mut counted = self.take_tenants(number)?;
        counted.count_at(now_us, tenants);
        self.fair.entry(number).or_default().tenants = Some(counted);
        Ok(())
    }

    /// Moves the counted tenants when the queue's contents get a new number.
    pub(crate) fn move_tenants(&mut self, from: u64, to: u64) -> Result<(), Error> {
        let tenants = self.take_tenants(from)?;
        if tenants != Tenants::default() {
            self.fair.entry(to).or_default().tenants = Some(tenants);
        }
        Ok(())
    }

    fn take_tenants(&mut self, number: u64) -> Result<Tenants, Error> {
        let counted = self.fair.get_mut(&number).and_then(|fair| fair.tenants.take());
        counted.map_or_else(|| self.view.tenants(number), Ok)
    }
}
