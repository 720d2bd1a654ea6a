// What is being done, by whom, does it go well?
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { changeOperation } from '../../api/actions';
import type { Operation } from '../../api/pending';
import { failures, operations } from '../../api/queries';
import { Segments } from '../../components/Controls';
import { AskDialog } from '../../components/Dialog';
import { Empty, Loaded } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { toast } from '../../components/Toasts';
import { t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { day, number } from '../../lib/format';
import { useUrl } from '../../lib/url';
import { useSession } from '../../shell/session';
import { BigOperation } from './BigOperation';
import { nameOf, resultOf, stateOf, whatOf } from './operation';
import './operations.css';

export function Operations() {
  const [search, change] = useUrl();
  const query = useQuery(operations);
  const client = useQueryClient();
  const me = useSession()?.name;
  const [cancel, setCancel] = useState<Operation | null>(null);
  const all = query.data ?? [];
  const running = all.filter((each) => each.state === 'RUNNING' || each.state === 'PAUSED');
  const show = search.show === 'running' || search.show === 'mine' ? search.show : 'all';
  const list = show === 'running' ? running : show === 'mine' ? all.filter((each) => each.requestedBy === me) : all;
  const big =
    list.find((each) => each.operationId === search.sel) ??
    (search.sel ? undefined : list.find((each) => each.state === 'RUNNING'));
  async function act(operation: Operation, verb: 'pause' | 'resume' | 'cancel') {
    await changeOperation(operation.operationId, verb);
    await client.invalidateQueries({ queryKey: ['operations'] });
    toast({
      icon: verb === 'resume' ? 'play' : verb === 'pause' ? 'pause' : 'x',
      title: t(`toast.op.${verb}`, { n: nameOf(operation) }),
    });
  }
  return (
    <div className="page">
      <div className="page-head">
        <h1>{t('nav.operations')}</h1>
        <span className="meta only-wide">{t('operations.text')}</span>
        <div className="tools">
          <Segments
            label={t('presets')}
            value={show}
            onChange={(value) => change({ show: value === 'all' ? undefined : value, sel: undefined })}
            options={[
              { value: 'all', label: t('all') },
              {
                value: 'running',
                label: (
                  <>
                    {t('op.running')} {running.length > 0 && <small>{running.length}</small>}
                  </>
                ),
              },
              { value: 'mine', label: t('op.mine') },
            ]}
          />
        </div>
      </div>
      <Loaded query={query}>
        {() => (
          <>
            {big && (
              <BigOperation
                operation={big}
                onAct={(verb) => (verb === 'cancel' ? setCancel(big) : void act(big, verb))}
              />
            )}
            {list.length === 0 ? (
              <div className="card">
                <Empty icon="repeat" title={t('operations.none')} text={t('operations.none.text')} />
              </div>
            ) : (
              <div className="card scroll-x">
                <table className="table operations">
                  <thead>
                    <tr>
                      <th />
                      <th>{t('col.state')}</th>
                      <th>{t('wizard.what')}</th>
                      <th>{t('op.why')}</th>
                      <th>{t('col.who')}</th>
                      <th>{t('op.progress')}</th>
                      <th>{t('op.result')}</th>
                      <th className="num">{t('col.started')}</th>
                    </tr>
                  </thead>
                  <tbody>
                    {list
                      .filter((each) => each !== big)
                      .map((each) => (
                        <Row key={each.operationId} operation={each} onOpen={() => change({ sel: each.operationId })} />
                      ))}
                  </tbody>
                </table>
              </div>
            )}
            <p className="under">{t('operations.note')}</p>
          </>
        )}
      </Loaded>
      {cancel && (
        <AskDialog
          danger
          reason="none"
          title={t('op.cancel.title', { n: nameOf(cancel) })}
          text={t('op.cancel.text', {
            done: number(cancel.done),
            rest: number(Math.max(0, (cancel.total ?? cancel.done) - cancel.done)),
          })}
          verb={t('op.cancel.verb')}
          act={() => act(cancel, 'cancel')}
          onClose={() => setCancel(null)}
        />
      )}
    </div>
  );
}

function Row({ operation, onOpen }: { operation: Operation; onOpen: () => void }) {
  const groups = useQuery(failures).data?.groups ?? [];
  const state = stateOf(operation);
  const result = resultOf(operation);
  const total = operation.total ?? operation.done;
  const share = (value: number | undefined) => `${((value ?? 0) / Math.max(1, total)) * 100}%`;
  return (
    <tr className="open" onClick={onOpen}>
      <td className="t2">
        <button type="button" className="hit" onClick={onOpen}>
          {nameOf(operation)}
        </button>
      </td>
      <td>
        <span className={`status m-${state.meaning} ${state.calm ? 'calm' : 'loud'}`}>
          <Icon name={state.icon} size={14} />
          {t(state.word)}
        </span>
      </td>
      <td className="cut what">{whatOf(operation, groups)}</td>
      <td className="t2 cut why-cell">{operation.reason ? `“${operation.reason}”` : '–'}</td>
      <td className="t2">{operation.requestedBy ?? '–'}</td>
      <td>
        <span className="progress">
          <span className="bar-line">
            <i className="m-ok" style={{ width: share(operation.delivered) }} />
            <i className={operation.failedAgain ? 'm-bad some' : ''} style={{ width: share(operation.failedAgain) }} />
            <i className={operation.skipped ? 'm-idle some' : ''} style={{ width: share(operation.skipped) }} />
          </span>
          <span className="t2 nowrap">
            {number(operation.done)} / {number(total)}
          </span>
        </span>
      </td>
      <td className={operation.stoppedBecause ? 'm-part c strong' : 't2'}>{result}</td>
      <td className="num t2 nowrap">{day(operation.createdAt, storeNow())}</td>
    </tr>
  );
}
