//! The quotas that operators set for single projects.

use crate::auth::Caller;
use crate::broker::access::require_client;
use crate::broker::{Action, Broker, Error};
use sukkal_domain::{ProjectId, QuotaLimits, QuotaOverrides};

/// The quotas of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaSettings {
    /// The project.
    pub project: ProjectId,
    /// The limits that were set for this project.
    pub quotas: QuotaOverrides,
    /// The limits in force.
    pub limits: QuotaLimits,
}

impl Broker {
    /// Returns the quotas of the project on which the caller acts. Only operators may ask for them.
    pub async fn get_quotas(&self, caller: &Caller) -> Result<QuotaSettings, Error> {
        let project = &require_client(caller)?.project;
        self.store.authorize(caller, Action::GetQuotas, project)?;
        self.refresh_quotas().await?;
        Ok(self.settings_of(project))
    }

    /// Replaces the quotas of the project on which the caller acts, and returns them. Without any,
    /// the limits of the configuration apply to the project. Only operators may do that.
    pub async fn set_quotas(&self, caller: &Caller, quotas: QuotaOverrides) -> Result<QuotaSettings, Error> {
        let project = require_client(caller)?.project.clone();
        let store = self.store.authorize(caller, Action::SetQuotas, &project)?.admit().await?;
        let this = self.clone();
        self.run_to_completion(async move {
            store.set_quotas(&project, &quotas).await?;
            this.refresh_quotas().await?;
            Ok(this.settings_of(&project))
        })
        .await
    }

    fn settings_of(&self, project: &ProjectId) -> QuotaSettings {
        let quotas = self.quotas.set_for(project);
        QuotaSettings { project: project.clone(), quotas, limits: self.quotas.limits(project) }
    }
}
