// What runs, what counts?
import { useQuery } from '@tanstack/react-query';
import { config, instances, jobs } from '../../api/queries';
import { Button } from '../../components/Button';
import { Cli, copyText } from '../../components/Copy';
import { Empty, Loaded } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { toast } from '../../components/Toasts';
import { t } from '../../i18n';
import { useHealth, useOperatorsWhole, useWhole } from '../../shell/session';
import { Cells } from './Cells';
import { Configuration } from './Configuration';
import { Instances, Jobs } from './Tables';
import { Troubles } from './Troubles';
import './system.css';

export function System() {
  const state = useHealth();
  const whole = useWhole();
  const who = useQuery({ ...instances, enabled: whole.may });
  const schedule = useQuery({ ...jobs, enabled: whole.may });
  const { may, refused: operator } = useOperatorsWhole();
  const settings = useQuery({ ...config, enabled: may });
  const schema = state.data?.store.schema;
  const ok = schema && schema.found === schema.needed;
  function bundle() {
    const text = JSON.stringify(
      { health: state.data, instances: who.data, jobs: schedule.data, config: settings.data },
      null,
      2,
    );
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
    link.download = 'postrider-debug.json';
    link.click();
    URL.revokeObjectURL(link.href);
  }
  return (
    <div className="page">
      <div className="page-head">
        <h1>{t('nav.system')}</h1>
        {state.data && (
          <span className={`pill m-${ok ? 'ok' : 'bad'}`}>
            <Icon name={ok ? 'check' : 'alert'} size={14} />
            {ok ? t('login.ready') : t('login.notready')}
          </span>
        )}
        <div className="tools">
          <Button
            kind="quiet"
            icon="terminal"
            onClick={() => {
              void copyText('postrider doctor');
              toast({ icon: 'copy', title: t('copied') });
            }}
          >
            postrider doctor
          </Button>
          <Button icon="download" refused={operator} onClick={bundle}>
            {t('system.bundle')}
          </Button>
        </div>
      </div>
      {whole.refused ? (
        <div className="card">
          <Empty icon="lock" title={whole.refused} />
        </div>
      ) : (
        <>
          {operator && (
            <div className="card system-lock">
              <Empty
                icon="lock"
                title={[
                  t('system.store'),
                  t('system.broker'),
                  t('system.schema'),
                  t('system.clock'),
                  t('system.config'),
                ].join(' · ')}
                text={operator}
              />
            </div>
          )}
          {state.data && <Cells health={state.data} jobs={schedule.data ?? []} settings={settings.data ?? []} />}
          {state.data && <Troubles health={state.data} />}
          <div className="system-two">
            <Loaded query={who}>{(list) => <Instances list={list} health={state.data} />}</Loaded>
            <Loaded query={schedule}>{(list) => <Jobs list={list} />}</Loaded>
          </div>
          {!operator && <Loaded query={settings}>{(list) => <Configuration settings={list} />}</Loaded>}
          <div className="under">
            <Cli line="postrider config" />
          </div>
        </>
      )}
    </div>
  );
}
