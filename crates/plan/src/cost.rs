//! The cost of a fleet over its years: parts, power, space, support, spares; rent, bytes of
//! objects, bytes between zones.
//!
//! Invariant: an item without a price is listed as not counted, and never counts as zero.

use serde::Serialize;

use crate::catalogue::{Month, Price, STALE_MONTHS};
use crate::demand::Flows;
use crate::load::{CostTerms, Goals};
use crate::mix::Mix;
use crate::quantity::{Bytes, Dollars, MONTH_HOURS, YEAR};

/// The cost of a fleet over the planned years.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Cost {
    /// The sum of everything that is counted.
    pub total: Dollars,
    /// Parts that are bought.
    pub purchase: Dollars,
    /// The items, in the order of an invoice.
    pub parts: Vec<Line>,
    /// Items without a price.
    pub not_counted: Vec<String>,
}

/// One line of an invoice.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Line {
    /// The item.
    pub what: String,
    /// The entry of the catalogue that has the price.
    pub id: Option<String>,
    /// Quantity.
    pub count: f64,
    /// Dollars over all years.
    pub usd: Dollars,
}

/// The terms by which a mix is priced.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Costs besides parts.
    pub cost: &'a CostTerms,
    /// The goals, with the number of years.
    pub goals: &'a Goals,
}

/// The cost of one broker.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Unit {
    /// Purchase.
    pub(crate) purchase: Dollars,
    /// Rent per month.
    pub(crate) month: Dollars,
    /// True if every part has a price.
    pub(crate) is_priced: bool,
}

impl Unit {
    /// Returns the cost of one broker of a mix.
    pub(crate) fn of(mix: &Mix<'_>, module: Option<&crate::catalogue::Module>) -> Self {
        let mut unit = Self {
            is_priced: true,
            ..Self::default()
        };
        priced(mix.server.price.as_ref(), Bytes::ZERO, 1.0, &mut unit);
        if let Some(nic) = mix.nic {
            priced(nic.price.as_ref(), Bytes::ZERO, 1.0, &mut unit);
        }
        if let Some(module) = module {
            let count = modules(mix, Some(module));
            priced(module.price.as_ref(), module.capacity, count, &mut unit);
        }
        for devices in mix.fast.iter().chain([&mix.bulk]) {
            let (device, count) = (devices.device, f64::from(devices.count));
            priced(device.price.as_ref(), device.capacity, count, &mut unit);
        }
        unit
    }
}

fn priced(price: Option<&Price>, capacity: Bytes, count: f64, unit: &mut Unit) {
    match price {
        Some(price) => {
            unit.purchase += price.purchase(capacity) * count;
            unit.month += price.month(capacity) * count;
        }
        None => unit.is_priced = false,
    }
}

/// Returns the number of modules of its memory; zero if the price of the server includes the
/// memory.
fn modules(mix: &Mix<'_>, module: Option<&crate::catalogue::Module>) -> f64 {
    module.map_or(0.0, |module| (mix.memory / module.capacity).ceil())
}

impl Terms<'_> {
    /// Returns the cost of one broker over the years, which the search compares.
    pub(crate) fn of_unit(
        &self,
        unit: &Unit,
        mix: &Mix<'_>,
        module: Option<&crate::catalogue::Module>,
    ) -> Dollars {
        let months = self.goals.years * 12.0;
        let running = self.support() * self.goals.years + self.cost.spares.unwrap_or(0.0);
        unit.purchase * (1.0 + running)
            + unit.month * months
            + self.power(mix, module).unwrap_or_default()
            + self.space(mix).unwrap_or_default()
    }

    fn support(&self) -> f64 {
        self.cost.support.unwrap_or(0.0)
    }

    /// Returns the cost of power of one broker; `None` if a figure is missing.
    fn power(&self, mix: &Mix<'_>, module: Option<&crate::catalogue::Module>) -> Option<Dollars> {
        let kwh = self.cost.kwh_usd?;
        let mut watts = mix.server.watts?;
        if let Some(nic) = mix.nic {
            watts += nic.watts.unwrap_or(0.0);
        }
        let of_modules = module.and_then(|module| module.watts).unwrap_or(0.0);
        watts += of_modules * modules(mix, module);
        for devices in mix.fast.iter().chain([&mix.bulk]) {
            watts += devices.device.watts? * f64::from(devices.count);
        }
        let hours = self.goals.years * 12.0 * MONTH_HOURS;
        Some(Dollars(
            watts / 1000.0 * hours * kwh * self.cost.pue.unwrap_or(1.0),
        ))
    }

    /// Returns the cost of space of one broker; `None` without its price.
    fn space(&self, mix: &Mix<'_>) -> Option<Dollars> {
        let month = self.cost.rack_unit_month_usd?;
        Some(Dollars(
            month * mix.server.rack_units * self.goals.years * 12.0,
        ))
    }

    /// Returns the cost that does not depend on the number of brokers: objects, and bytes between
    /// zones, of the whole fleet.
    pub(crate) fn shared(
        &self,
        mix: &Mix<'_>,
        flows: &Flows,
        clusters: f64,
        racks: u32,
    ) -> Dollars {
        let months = self.goals.years * 12.0;
        let mut sum = Dollars::ZERO;
        if let Some(object) = mix.object {
            if let Some(price) = &object.price {
                sum += price.month(flows.objects * clusters) * months;
            }
            sum += self.puts(object, flows, clusters).unwrap_or_default();
        }
        sum + self.zones(mix, flows, clusters, racks).unwrap_or_default()
    }

    fn puts(
        &self,
        object: &crate::catalogue::ObjectStore,
        flows: &Flows,
        clusters: f64,
    ) -> Option<Dollars> {
        let thousand = object.put_thousand_usd?;
        let requests = (flows.object_up * clusters * (YEAR * self.goals.years)) / object.object;
        Some(Dollars(requests / 1000.0 * thousand))
    }

    /// Returns the cost of bytes between zones.
    ///
    /// Copies leave their zone. Producers and readers cross zones when their leader is in another:
    /// a share of (zones - 1) / zones.
    fn zones(&self, mix: &Mix<'_>, flows: &Flows, clusters: f64, racks: u32) -> Option<Dollars> {
        if !mix.server.cloud {
            return None;
        }
        let price = self.cost.zone_gb_usd?;
        let elsewhere = 1.0 - 1.0 / f64::from(racks.max(1));
        let crossing = flows.copies_out + (flows.average + flows.readers_out) * elsewhere;
        let bytes = crossing * clusters * (YEAR * self.goals.years);
        // Each direction is charged.
        Some(Dollars(bytes.0 / 1e9 * price * 2.0))
    }

    /// Returns the whole invoice.
    pub(crate) fn invoice(
        &self,
        mix: &Mix<'_>,
        module: Option<&crate::catalogue::Module>,
        fleet: &FleetSize<'_>,
    ) -> Cost {
        let mut cost = Cost::default();
        let brokers = f64::from(fleet.brokers);
        let months = self.goals.years * 12.0;
        let mut part =
            |what: String, id: &str, price: Option<&Price>, capacity, each: f64| match price {
                Some(price) => {
                    let count = each * brokers;
                    let bought = price.purchase(capacity) * count;
                    cost.purchase += bought;
                    cost.parts.push(Line {
                        what,
                        id: Some(id.to_owned()),
                        count,
                        usd: bought + price.month(capacity) * count * months,
                    });
                }
                None => cost.not_counted.push(format!("{id}: no price")),
            };
        let server = mix.server;
        part(
            "servers".into(),
            &server.id,
            server.price.as_ref(),
            Bytes::ZERO,
            1.0,
        );
        if let Some(nic) = mix.nic {
            part(
                "network interfaces".into(),
                &nic.id,
                nic.price.as_ref(),
                Bytes::ZERO,
                1.0,
            );
        }
        if let Some(module) = module {
            let count = modules(mix, Some(module));
            part(
                "memory modules".into(),
                &module.id,
                module.price.as_ref(),
                module.capacity,
                count,
            );
        }
        for (name, devices) in [("first tier", mix.fast), ("bulk tier", Some(mix.bulk))] {
            let Some(devices) = devices else { continue };
            let (device, count) = (devices.device, f64::from(devices.count));
            let name = if mix.fast.is_none() { "devices" } else { name };
            part(
                name.into(),
                &device.id,
                device.price.as_ref(),
                device.capacity,
                count,
            );
        }
        self.besides(mix, module, fleet, &mut cost);
        cost.total = cost.parts.iter().map(|line| line.usd).sum();
        cost
    }

    fn besides(
        &self,
        mix: &Mix<'_>,
        module: Option<&crate::catalogue::Module>,
        fleet: &FleetSize<'_>,
        cost: &mut Cost,
    ) {
        let brokers = f64::from(fleet.brokers);
        let bought = cost.purchase;
        let is_bought = bought > Dollars::ZERO;
        let mut line = |what: &str, usd: Option<Dollars>, applies: bool| match usd {
            Some(usd) => cost.parts.push(Line {
                what: what.to_owned(),
                id: None,
                count: 1.0,
                usd,
            }),
            None if applies => cost.not_counted.push(what.to_owned()),
            None => {}
        };
        let years = self.goals.years;
        line(
            "support",
            self.cost.support.map(|share| bought * (share * years)),
            is_bought,
        );
        line(
            "spare parts",
            self.cost.spares.map(|share| bought * share),
            is_bought,
        );
        line(
            "power",
            self.power(mix, module).map(|each| each * brokers),
            !mix.server.cloud,
        );
        line(
            "space",
            self.space(mix).map(|each| each * brokers),
            !mix.server.cloud,
        );
        if let Some(object) = mix.object {
            let months = years * 12.0;
            let bytes = fleet.flows.objects * fleet.clusters;
            let stored = object
                .price
                .as_ref()
                .map(|price| price.month(bytes) * months);
            line("bytes of objects", stored, true);
            line(
                "requests to objects",
                self.puts(object, fleet.flows, fleet.clusters),
                true,
            );
        }
        let zones = self.zones(mix, fleet.flows, fleet.clusters, fleet.racks);
        line("bytes between zones", zones, mix.server.cloud);
    }
}

/// The size of a fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FleetSize<'a> {
    /// Brokers in total.
    pub(crate) brokers: u32,
    /// Clusters of all sites.
    pub(crate) clusters: f64,
    /// Zones or racks.
    pub(crate) racks: u32,
    /// The flows of one cluster.
    pub(crate) flows: &'a Flows,
}

/// Returns true if a price is too old to be used by default.
pub(crate) fn is_stale(price: Option<&Price>, today: Month) -> bool {
    price.is_some_and(|price| price.age(today) > STALE_MONTHS)
}
