//! Budgets of tenants: money and places are reserved before a job runs, and settled after it.

use super::{Fleet, TRIES};
use crate::entry::{Budget, Entry};
use crate::error::QueueError;
use crate::job::JobKey;

impl Fleet {
    /// Sets the limits of a tenant.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn set_budget(
        &self,
        tenant: &str,
        change: impl Fn(&mut Budget) + Send + Sync,
    ) -> Result<Budget, QueueError> {
        for _ in 0..TRIES {
            let found = self.backend.budget(tenant).await?;
            let mut budget = found.value;
            change(&mut budget);
            match self
                .backend
                .put_budget(tenant, &budget, found.revision)
                .await
            {
                Ok(_) => return Ok(budget),
                Err(QueueError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Err(QueueError::Conflict)
    }

    pub(super) async fn reserve(&self, entry: &Entry) -> Result<bool, QueueError> {
        let limit = entry.job.limits.budget_usd;
        let usd = limit.map_or(0.0, |limit| (limit - entry.cost_usd).max(0.0));
        for _ in 0..TRIES {
            let found = self.backend.budget(&entry.job.tenant).await?;
            if !found.value.is_limited() {
                return Ok(true);
            }
            let mut budget = found.value;
            if !budget.reserve(&entry.job.id, usd) {
                return Ok(false);
            }
            match self
                .backend
                .put_budget(&entry.job.tenant, &budget, found.revision)
                .await
            {
                Ok(_) => return Ok(true),
                Err(QueueError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Err(QueueError::Conflict)
    }

    pub(super) async fn settle(&self, key: &JobKey, cost: f64) -> Result<(), QueueError> {
        let found = self.backend.budget(&key.tenant).await?;
        if !found.value.is_limited() && cost == 0.0 {
            return Ok(());
        }
        self.set_budget(&key.tenant, |budget| budget.settle(&key.id, cost))
            .await?;
        Ok(())
    }

    /// Removes a reservation whose job no worker has.
    pub(super) async fn forget_reservation(&self, key: &JobKey) -> Result<(), QueueError> {
        let found = self.backend.budget(&key.tenant).await?;
        if !found.value.reserved.contains_key(&key.id) {
            return Ok(());
        }
        let revision = found.revision;
        let mut budget = found.value;
        budget.reserved.remove(&key.id);
        match self
            .backend
            .put_budget(&key.tenant, &budget, revision)
            .await
        {
            Ok(_) | Err(QueueError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
